"""The first screen of a report, or of the report of runs: python docs/make_page_picture.py FILE.png PAGE.html|RUN...

Needs a Chromium and playwright. The page is judged without baselines, so that the picture shows the runs alone.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def take(page: Path, output: Path, width: int = 1280, height: int = 900, *, dark: bool = False) -> None:
    """The first screen of the page in a window of that size, as PNG."""
    from playwright.sync_api import sync_playwright

    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        raise SystemExit(f"no browser: install one of {', '.join(BROWSERS)}")
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        scheme = "dark" if dark else "light"
        shown = opened.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        shown.goto(page.as_uri())
        shown.wait_for_load_state("load")
        shown.screenshot(path=str(output))
        opened.close()


def main(words: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=900)
    parser.add_argument("--dark", action="store_true")
    options = parser.parse_args(words)
    size = (options.width, options.height)
    if len(options.runs) == 1 and options.runs[0].endswith(".html"):
        take(Path(options.runs[0]).resolve(), options.output, *size, dark=options.dark)
        return
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        command = [sys.executable, "-m", "harness.cli", "report", *options.runs, "--format", "html"]
        subprocess.run([*command, "--output", str(page), "--baselines", folder], check=False)
        if not page.is_file():
            raise SystemExit("no page was made; the message is above")
        take(page, options.output, *size, dark=options.dark)


if __name__ == "__main__":
    main(sys.argv[1:])
