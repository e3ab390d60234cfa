# PYTHON_ARGCOMPLETE_OK
"""The `harness` command. Exit status: 0 green, 1 red, 2 the user's mistake, 3 no verdict."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from harness import __version__, commands
from harness.errors import HarnessError


def main(words: Sequence[str] | None = None) -> int:
    """Runs one subcommand; a user's mistake is one line on stderr and exit status 2."""
    parser = _parser()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks how the words may go on
        from harness import completion

        completion.answer(parser)
    options = parser.parse_args(words)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except HarnessError as error:
        print(f"harness: {error}", file=sys.stderr)
        return int(getattr(error, "exit_status", 2))
    except BrokenPipeError:
        # The reader of our output has gone, as `| head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("harness: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="harness",
        description="Judges runs of the suites and reports.",
        epilog="Exit status: 0 green; 1 red; 2 a mistake in the call; 3 no verdict. Runs are made by `nox -s cpu`.",
    )
    parser.add_argument("--version", action="version", version=f"harness {__version__}")
    added = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name in commands.names():
        command = commands.get(name)
        command.add(added.add_parser(name, help=command.HELP))
    return parser


if __name__ == "__main__":
    sys.exit(main())
