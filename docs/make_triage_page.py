"""Writes the table of signatures into docs/triage.md, between its marks: python docs/make_triage_page.py"""

from __future__ import annotations

from pathlib import Path

from harness.triage_files import load_signatures
from harness.triage_report import with_table

PAGE = Path(__file__).with_name("triage.md")


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), load_signatures()), encoding="utf-8")
