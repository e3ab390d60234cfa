"""The library that draws the plots of an HTML report, as one text: made once, then kept in the user's cache."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from platformdirs import user_cache_dir

SNIPPET = "window.vegaEmbed = vegaEmbed;"


def read() -> str | None:
    """The script, about 0.9 MB; None where vl-convert, which holds it, is not installed."""
    try:
        import vl_convert
    except ImportError:
        return None
    folder = Path(os.environ.get("HARNESS_CACHE") or user_cache_dir("vitra-harness")) / "vega"
    file = folder / f"vega-{getattr(vl_convert, '__version__', 'unknown')}.js"
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        script: str = vl_convert.javascript_bundle(snippet=SNIPPET)
    _keep(script, file)
    return script


def _keep(script: str, file: Path) -> None:
    """Writes the file whole or not at all; without a cache that can be written the next report makes it again."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=file.parent, delete=False, encoding="utf-8") as part:
            part.write(script)
        Path(part.name).replace(file)
    except OSError:
        return
