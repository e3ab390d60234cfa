"""Writes the list of the doctor's checks into docs/doctor.md, below its mark: python docs/make_doctor_page.py"""

from __future__ import annotations

from pathlib import Path

from harness import doctor
from harness.doctor_text import render_page

PAGE = Path(__file__).with_name("doctor.md")
MARK = "<!-- below: written by docs/make_doctor_page.py -->\n"


def page(text: str) -> str:
    """The page with the list as the checks have it now."""
    return text.partition(MARK)[0] + MARK + render_page(doctor.every_check())


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
