"""Pieces of HTML in which all text from tests and logs stays text; pure."""

from __future__ import annotations

import functools
import hashlib
import html
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from harness.records import finite
from harness.report_parts.parts import one_line, plain


@functools.lru_cache(maxsize=1 << 16)
def text(value: str) -> str:
    """One line in which nothing is markup, inside an element or a quoted attribute."""
    return html.escape(one_line(value))


def block(value: str) -> str:
    """Several lines in which nothing is markup."""
    return html.escape(plain(value))


def linked(value: str) -> str:
    """One line whose web addresses are links, and nothing else of it is markup."""
    parts = re.split(r"(https?://[^\s<>\"'()]+)", one_line(value))
    return "".join(link(part) if n % 2 else text(part) for n, part in enumerate(parts))


def link(address: str) -> str:
    """A link to a web address; text where the address is of another kind, such as a script."""
    said = text(address)
    if not re.match(r"https?://", address):
        return said
    return f'<a href="{said}" rel="noreferrer">{said}</a>'


def anchor(kind: str, name: str) -> str:
    """An id that the same name has in every report: a letter and ten hex digits."""
    return kind + hashlib.blake2b(name.encode(errors="replace"), digest_size=5).hexdigest()


def data(value: Any) -> str:
    """JSON that may stand inside a script element: it cannot end it. Numbers that JSON has no form for are null."""
    said = json.dumps(finite(value), separators=(",", ":"), allow_nan=False)
    return said.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def heading(level: int, words: str, name: str = "") -> str:
    """A heading of HTML, with an id where it has a name."""
    where = f' id="{name}"' if name else ""
    return f"<h{level}{where}>{words}</h{level}>"


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, kind: str = "") -> str:
    """A table of ready cells, the first of each row its header, in a region that scrolls where it must.

    `columns` are text. A row longer than the columns ends with its class.
    """
    label = text(caption)
    shape = f' class="{kind}"' if kind else ""
    out = [f'<div class="scroll" role="group" tabindex="0" aria-label="{label}"><table{shape}>']
    out.append(f"<caption>{label}</caption><thead><tr>")
    out += [f'<th scope="col">{text(c)}' for c in columns]
    out.append("</thead><tbody>")
    for row in rows:
        of = f' class="{row[len(columns)]}"' if len(row) > len(columns) else ""
        out.append(f'<tr{of}><th scope="row">{row[0]}')
        out += [f"<td>{cell}" for cell in row[1 : len(columns)]]
    out.append("</tbody></table></div>")
    return "".join(out)


def listed(lines: Iterable[str]) -> str:
    """A list of lines of text; empty without lines."""
    items = "".join(f"<li>{linked(line)}" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Names and what is said of them."""
    return f"<dl>{''.join(f'<dt>{text(name)}<dd>{text(value)}' for name, value in rows)}</dl>"


def command(words: str) -> str:
    """A command to copy."""
    return f'<div class="cmd"><code>{text(words)}</code></div>'
