"""How often rules are wrong about benchmarks, and what they find: `python benchmarks/verdicts.py`.

Draws reports of 50 metrics on made-up machines (verdict_worlds.py), and asks our rules and other tools' own code
(verdict_rules.py) about them: the chance of a false alarm in a report where nothing changed, the chance to find a
change of 5 % and of 10 %, and the processes spent. `--output FILE` writes it as a document. Exit status 1 when one of
our rules gives more false alarms than it promises on a machine that it promises it for.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import verdict_text
from verdict_counts import broken, measure
from verdict_rules import rules
from verdict_worlds import WORLDS


def main() -> int:
    """Prints the tables, and writes the document where asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--reports", type=int, default=100, help="in each cell (default: 100, some minutes)")
    parser.add_argument("--seed", type=int, default=20261203)
    parser.add_argument("--world", action="append", help="only this kind of machine; may be given again")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the document there")
    options = parser.parse_args()
    worlds = [w for w in WORLDS if options.world is None or w.name in options.world]
    if options.reports < 1 or not worlds:
        parser.error(f"at least 1 report, on some of: {', '.join(w.name for w in WORLDS)}")
    asked = rules()
    began = time.perf_counter()
    cells = measure(
        asked, worlds, options.reports, options.seed, lambda line: print(line, file=sys.stderr, flush=True)
    )
    over = broken(cells, asked, worlds)
    tables = verdict_text.render_tables(cells, asked, worlds)
    print("\n".join(tables))
    print("\n".join(verdict_text.render_broken(cells, over)))
    if options.output is not None:
        took = time.perf_counter() - began
        text = verdict_text.render_document(cells, asked, worlds, over, options.reports, options.seed, took)
        options.output.write_text(text, encoding="utf-8")
    # Without pairs there is no promise for a machine that changes.
    fair = {(w.name, rule.name) for w in worlds for rule in asked if w.steady or not rule.one_look}
    return int(any((world, rule) in fair for world, _, rule in over))


if __name__ == "__main__":
    raise SystemExit(main())
