"""`harness comment`: puts a report on a pull request, in place of the one that it put there before."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.github import Comment, GitHub

HELP = "put a report on a pull request, in place of the earlier one"
_TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")
_POSTS = 3
"""So often a comment is written whose fate nobody knows; each time it is looked for first."""


def add(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.description = (
        "Puts a file of `harness report --format pull_request` on a pull request of GitHub. A comment that the same "
        "account wrote under the same key is edited; anybody else's is left alone. The token is read from GITHUB_TOKEN "
        "or GH_TOKEN."
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the comment, as markdown")
    parser.add_argument("--repository", required=True, metavar="OWNER/NAME")
    parser.add_argument("--pull", required=True, metavar="N", help="number of the pull request")
    parser.add_argument("--key", metavar="NAME", help="which of several comments; default: the file's own")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from harness.errors import UsageError
    from harness.github import API, GitHub

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]*/(?!\.{1,2}$)[A-Za-z0-9._-]+", options.repository):
        raise UsageError(f"--repository {options.repository!r}: write OWNER/NAME")
    if not re.fullmatch(r"[1-9][0-9]{0,9}", options.pull):
        raise UsageError(f"--pull {options.pull!r}: write the number of a pull request")
    body, key = _read(options.file, options.key)
    client = GitHub(_token(os.environ), os.environ.get("GITHUB_API_URL") or API)
    done, comment = publish(client, options.repository, int(options.pull), body, key)
    print(f"{done} comment {comment.id}{f': {comment.url}' if comment.url else ''}")
    return 0


def _token(environment: Mapping[str, str]) -> str:
    from harness.errors import UsageError

    for name in _TOKENS:
        if environment.get(name, "").strip():
            return environment[name]
    raise UsageError("no token: set GITHUB_TOKEN, in a workflow `env: GITHUB_TOKEN: ${{ github.token }}`")


def _read(path: Path, key: str | None) -> tuple[str, str]:
    """The comment's text under its key, and the key; UsageError when it cannot be a comment."""
    from harness.errors import UsageError
    from harness.report_parts import comments

    try:
        body = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}; make it with harness report --format pull_request"
        ) from None
    except ValueError:
        raise UsageError(
            f"{path}: is not UTF-8 text; make it with harness report --format pull_request"
        ) from None
    if key is not None and not comments.is_key(key):
        raise UsageError(f"--key {key!r}: use letters, digits, '.', '_' and '-', at most 100")
    key = key or comments.key_of(body) or comments.KEY
    body = comments.with_key(body, key)
    if not body.partition("\n")[2].strip():
        raise UsageError(f"{path}: is empty; make it with harness report --format pull_request")
    if len(body) > comments.LIMIT_BYTES:
        raise UsageError(
            f"{path}: {len(body)} characters, and GitHub takes {comments.LIMIT_BYTES} in a comment; make it with "
            "harness report --format pull_request"
        )
    return body, key


def publish(client: GitHub, repository: str, pull: int, body: str, key: str) -> tuple[str, Comment]:
    """Edits the first own comment with this key, or posts a new one; says which, and the comment as it is now."""
    from harness.github import Unsure

    me = client.whoami()
    for number in range(1, _POSTS + 1):
        mine = find_own(client, repository, pull, me, key)
        if mine is not None and mine.body.replace("\r\n", "\n").rstrip() == body.rstrip():
            return ("unchanged" if number == 1 else "posted"), mine
        if mine is not None:
            return "edited", client.edit(repository, mine.id, body)
        try:
            return "posted", client.post(repository, pull, body)
        except Unsure:
            if number == _POSTS:
                raise
    raise AssertionError("unreachable")


def find_own(client: GitHub, repository: str, pull: int, me: str, key: str) -> Comment | None:
    """The first comment that this account wrote and that begins with the key's marker; None when there is none.

    The marker alone proves nothing: anybody can write it.
    """
    from harness.report_parts.comments import key_of

    for comment in client.comments(repository, pull):
        if comment.author == me and key_of(comment.body) == key:
            return comment
    return None
