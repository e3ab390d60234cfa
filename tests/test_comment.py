"""What `harness comment` promises, against a real HTTP server that answers as GitHub's API does."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

import forms_content
import runs
from harness import github
from harness.commands import comment as command
from harness.errors import UsageError
from harness.report_parts import comments
from harness.reports import pull_request

TOKEN = "ghs_aVerySecretToken0123456789"
BOT = "github-actions[bot]"
REPOSITORY = "owner/name"
MARK = comments.marker(comments.KEY)
Trouble = tuple[int, dict[str, str], dict[str, Any]]


@dataclass
class Server:
    """A repository with one pull request; `troubles` are answered, one a request, to requests of their method."""

    comments: list[dict[str, Any]] = field(default_factory=list)
    troubles: dict[str, list[Trouble | str]] = field(default_factory=dict)
    login: str = BOT
    per_page: int = 2
    asked: list[tuple[str, str]] = field(default_factory=list)
    elsewhere: str | None = None
    url: str = ""

    def add(self, login: str, body: str) -> int:
        number = len(self.comments) + 1
        made = {
            "id": number,
            "user": {"login": login, "id": 1},
            "body": body,
            "html_url": f"https://x/{number}",
        }
        self.comments.append(made)
        return number

    def bodies(self) -> list[str]:
        return [c["body"] for c in self.comments]

    def writes(self) -> list[str]:
        return [method for method, path in self.asked if method != "GET" and path != "/graphql"]


class Handler(BaseHTTPRequestHandler):
    server_data: Server

    def log_message(self, *words: Any) -> None:
        """Quiet."""

    def _reply(self, status: int, value: Any, headers: dict[str, str] | None = None) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _any(self) -> None:
        data, split = self.server_data, urlsplit(self.path)
        data.asked.append((self.command, split.path))
        length = int(self.headers.get("Content-Length") or 0)
        content = json.loads(self.rfile.read(length)) if length else {}
        key = "graphql" if split.path == "/graphql" else self.command
        trouble = data.troubles.get(key, [])
        found = trouble.pop(0) if trouble else None
        if isinstance(found, tuple):
            self._reply(found[0], found[2], found[1])
            return
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self._reply(401, {"message": "Bad credentials"})
            return
        if not self.headers.get("User-Agent", "").startswith("vitra-harness"):
            self._reply(403, {"message": "Request forbidden by administrative rules"})
            return
        status, value, headers = self._act(split.path, parse_qs(split.query), content)
        if found == "done, and the answer is lost":
            self._reply(502, {"message": "Bad gateway"})
        elif found == "hangs up":
            self.close_connection = True
        else:
            self._reply(status, value, headers)

    do_GET = do_POST = do_PATCH = _any

    def _act(
        self, path: str, query: dict[str, list[str]], content: dict[str, Any]
    ) -> tuple[int, Any, dict[str, str]]:
        data = self.server_data
        if path == "/graphql":
            return 200, {"data": {"viewer": {"login": data.login}}}, {}
        if path == f"/repos/{REPOSITORY}/issues/7/comments" and self.command == "GET":
            page = int(query.get("page", ["1"])[0])
            found = data.comments[(page - 1) * data.per_page : page * data.per_page]
            base = data.elsewhere or data.url
            link = f'<{base}{path}?per_page={data.per_page}&page={page + 1}>; rel="next", <{base}{path}>; rel="last"'
            return 200, found, {"Link": link} if len(data.comments) > page * data.per_page else {}
        if path == f"/repos/{REPOSITORY}/issues/7/comments" and self.command == "POST":
            if len(content["body"]) > 65_536:
                return 422, {"message": "Validation Failed"}, {}
            return 201, data.comments[data.add(data.login, content["body"]) - 1], {}
        if (
            edit := re.fullmatch(rf"/repos/{REPOSITORY}/issues/comments/(\d+)", path)
        ) and self.command == "PATCH":
            # A token that may write may edit anybody's comment: the server does not keep the client from it.
            data.comments[int(edit[1]) - 1]["body"] = content["body"]
            return 200, data.comments[int(edit[1]) - 1], {}
        return 404, {"message": "Not Found"}, {}


@pytest.fixture
def server() -> Iterator[Server]:
    data = Server()
    handler = type("Bound", (Handler,), {"server_data": data})
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    data.url = f"http://127.0.0.1:{httpd.server_address[1]}"
    thread = threading.Thread(target=httpd.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield data
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def publish(
    server: Server, body: str = "new text", key: str = comments.KEY, **options: Any
) -> tuple[str, list[float]]:
    """Publishes a body under a key; what was done, and the pauses that were asked for."""
    waited: list[float] = []
    client = github.GitHub(options.get("token", TOKEN), options.get("base", server.url), waited.append)
    done, _ = command.publish(client, REPOSITORY, options.get("pull", 7), comments.with_key(body, key), key)
    return done, waited


def test_the_first_comment_is_posted(server: Server) -> None:
    """Without an earlier comment of its own one is posted, under the marker."""
    server.add("somebody", "hello")
    assert publish(server) == ("posted", [])
    assert server.bodies() == ["hello", f"{MARK}\nnew text"]


def test_its_own_comment_is_edited_on_any_page(server: Server) -> None:
    """The first own comment with the marker is edited, pages later too; a second one of its own is left as it is."""
    for n in range(4):
        server.add("somebody", f"talk {n}")
    server.add(BOT, f"{MARK}\nold")
    server.add("somebody", "more talk")
    server.add(BOT, f"{MARK}\nolder still")
    before = server.bodies()
    assert publish(server)[0] == "edited"
    after = server.bodies()
    assert after[4] == f"{MARK}\nnew text"
    assert after[:4] + after[5:] == before[:4] + before[5:]


def test_a_strangers_marker_is_never_edited(server: Server) -> None:
    """A comment of another user that holds the marker is left alone, whatever the token could do to it."""
    for login in ("mallory", "github-actions", "GitHub-Actions[bot]", "other-app[bot]"):
        server.add(login, f"{MARK}\nI am the report")
    server.comments.append({"id": 5, "user": None, "body": f"{MARK}\nof an account that is gone"})
    before = server.bodies()
    assert publish(server)[0] == "posted"
    assert server.bodies() == [*before, f"{MARK}\nnew text"]
    assert server.writes() == ["POST"]


def test_a_marker_counts_at_the_start_alone(server: Server) -> None:
    """An own comment that only quotes the marker, or has another key, is another comment."""
    server.add(BOT, f"> {MARK}\nquoted")
    server.add(BOT, f"{comments.marker('other')}\nanother report")
    assert publish(server)[0] == "posted"
    assert publish(server, "third", key="other")[0] == "edited"
    assert server.bodies()[1:] == [f"{comments.marker('other')}\nthird", f"{MARK}\nnew text"]


def test_the_same_text_is_not_written_again(server: Server) -> None:
    """A comment that says the same already is left as it is, although GitHub keeps other line ends."""
    server.add(BOT, f"{MARK}\r\nnew text")
    assert publish(server)[0] == "unchanged"
    assert server.writes() == []


def test_another_account(server: Server) -> None:
    """The author is whoever the token belongs to: with a person's token the bot's comment is a stranger's."""
    server.login = "alice"
    server.add(BOT, f"{MARK}\nthe bot's")
    server.add("alice", f"{MARK}\nalice's")
    publish(server)
    assert server.bodies() == [f"{MARK}\nthe bot's", f"{MARK}\nnew text"]


LIMITED = (403, {"X-RateLimit-Remaining": "0"}, {"message": "API rate limit exceeded for installation"})
SECONDARY = (403, {}, {"message": "You have exceeded a secondary rate limit. Please wait a few minutes."})


@pytest.mark.parametrize(
    ("method", "troubles", "pauses"),
    [
        ("POST", [(403, {"Retry-After": "3"}, {"message": "secondary"})], [3.0]),
        ("POST", [SECONDARY], [60.0]),
        ("GET", [(429, {}, {})], [60.0]),
        ("GET", [(500, {}, {}), (502, {}, {}), (503, {"Retry-After": "0"}, {})], [1.0, 2.0, 0.0]),
        ("graphql", [(502, {}, {})], [1.0]),
        ("GET", ["hangs up"], [1.0]),
    ],
)
def test_it_asks_again(
    method: str, troubles: list[Trouble | str], pauses: list[float], server: Server
) -> None:
    """A rate limit and a failing server are asked again after the pause that GitHub names, or a growing one."""
    server.troubles[method] = list(troubles)
    assert publish(server) == ("posted", pauses)
    assert server.bodies() == [f"{MARK}\nnew text"]


def test_the_reset_of_a_limit_is_waited_for(server: Server) -> None:
    """A spent limit that resets soon is waited for until then; one that resets in an hour is told at once."""
    soon, late = (
        (LIMITED[0], {**LIMITED[1], "X-RateLimit-Reset": str(int(time.time()) + s)}, LIMITED[2])
        for s in (90, 3600)
    )
    server.troubles["GET"] = [soon]
    done, (pause,) = publish(server)
    assert done == "posted"
    assert 30 < pause <= 90
    server.troubles["GET"] = [late]
    with pytest.raises(UsageError, match=r"API rate limit exceeded.*it asks to wait 3\d\d\d s.*again later"):
        publish(server)


def test_it_gives_up(server: Server) -> None:
    """A server that fails each time is asked a bounded number of times, and the failure is one line."""
    server.troubles["GET"] = [(500, {}, {"message": "oh\nno"})] * 50
    with pytest.raises(UsageError, match=rf"500 oh no; asked {github.TRIES} times") as told:
        publish(server)
    assert "\n" not in str(told.value)
    assert len([m for m, p in server.asked if m == "GET"]) == github.TRIES


@pytest.mark.parametrize("trouble", ["done, and the answer is lost", "hangs up"])
def test_a_lost_answer_makes_no_second_comment(trouble: str, server: Server) -> None:
    """A comment whose answer was lost is looked for before another is posted."""
    server.troubles["POST"] = [trouble]
    done, pauses = publish(server)
    assert (done, len(pauses)) == ("posted", 1)
    assert server.bodies() == [f"{MARK}\nnew text"]


@pytest.mark.parametrize(
    ("status", "message", "words"),
    [
        (401, "Bad credentials", ("secrets.GITHUB_TOKEN", "401")),
        (403, "Resource not accessible by integration", ("pull-requests: write", "workflow_run")),
        (404, "Not Found", ("--repository", "--pull", REPOSITORY)),
        (422, "Validation Failed", ("422",)),
        (301, "Moved Permanently", ("has moved",)),
    ],
)
def test_a_refusal_says_what_to_do(status: int, message: str, words: tuple[str, ...], server: Server) -> None:
    """What GitHub refuses is one line that says why and what to do, and is not asked again; no redirect is followed."""
    headers = {"Location": f"{server.url}/stolen"} if status == 301 else {}
    server.troubles["GET"] = [(status, headers, {"message": f"{message} {TOKEN}"})]
    with pytest.raises(UsageError) as told:
        publish(server)
    for word in (*words, message, "***"):
        assert word in str(told.value)
    assert TOKEN not in str(told.value)
    assert [m for m, p in server.asked if p != "/graphql"] == ["GET"]


def test_the_token_stays_at_home(server: Server) -> None:
    """The next page is asked of the API's own origin alone."""
    server.elsewhere = "http://127.0.0.1:9"
    for n in range(3):
        server.add("somebody", str(n))
    with pytest.raises(UsageError, match="at another host"):
        publish(server)


@pytest.mark.parametrize(
    ("token", "base", "words"),
    [
        ("", github.API, "token"),
        ("a b", github.API, "token"),
        ("a\nX-Header: b", github.API, "token"),
        (TOKEN, "http://api.example.org", "https://"),
        (TOKEN, "ftp://localhost", "https://"),
        (TOKEN, "https://", "https://"),
        (TOKEN, "https://me@api.example.org", "user name"),
    ],
)
def test_where_no_token_is_sent(token: str, base: str, words: str) -> None:
    """A token that cannot be one, or a base that is not encrypted, is refused before anything is sent."""
    with pytest.raises(UsageError, match=words) as told:
        github.GitHub(token, base)
    assert "X-Header" not in str(told.value)


@pytest.mark.parametrize(
    ("body", "words"), [("[]", "whom"), ("no json", "no JSON"), ("[" * 100_000, "no JSON")]
)
def test_an_answer_that_is_none(
    body: str, words: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that is not GitHub's is told, without a traceback."""
    monkeypatch.setattr(Handler, "_reply", lambda self, *a: _raw(self, body))
    with pytest.raises(UsageError, match=words):
        publish(server)


def _raw(handler: Handler, body: str) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body.encode())


def call(server: Server, *words: str, **variables: str) -> Any:
    """The command in a process of its own, with a token."""
    clean = {"GITHUB_TOKEN": TOKEN, "GH_TOKEN": "", "GITHUB_API_URL": server.url}
    return runs.harness("comment", *words, variables={**clean, **variables})


AT = ("--repository", REPOSITORY, "--pull", "7")


def test_the_command(server: Server, tmp_path: Path) -> None:
    """The command posts a rendered report, edits it the next time, keeps reports of two keys apart, and tells no token."""
    file = tmp_path / "report.md"
    file.write_text(pull_request.render(forms_content.every_merged()))
    first = call(server, *AT, str(file))
    assert (first.returncode, first.stdout, first.stderr) == (0, "posted comment 1: https://x/1\n", "")
    file.write_text(pull_request.render(forms_content.green_single()))
    assert call(server, *AT, str(file)).stdout.startswith("edited comment 1")
    assert call(server, *AT, str(file), GITHUB_TOKEN="", GH_TOKEN=TOKEN).stdout.startswith(
        "unchanged comment 1"
    )
    assert call(server, *AT, "--key", "nightly.cpu", str(file)).stdout.startswith("posted comment 2")
    assert server.bodies()[0] == file.read_text()
    assert server.bodies()[1].startswith("<!-- harness-report: nightly.cpu -->\n\n**GREEN")
    bad = call(server, *AT, str(file), GITHUB_TOKEN="another")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.count("\n") == 1
    assert "another" not in bad.stderr


@pytest.mark.parametrize(
    ("words", "content", "told"),
    [
        (("--repository", "name", "--pull", "7"), b"x", "OWNER/NAME"),
        (("--repository", "owner/..", "--pull", "7"), b"x", "OWNER/NAME"),
        (("--repository", "owner/name/issues", "--pull", "7"), b"x", "OWNER/NAME"),
        (("--repository", REPOSITORY, "--pull", "0"), b"x", "--pull"),
        (("--repository", REPOSITORY, "--pull", "7/../8"), b"x", "--pull"),
        ((*AT, "--key", "a -->"), b"x", "--key"),
        ((*AT, "--key", "a--b"), b"x", "--key"),
        (AT, b"", "is empty"),
        (AT, f"{MARK}\n \n".encode(), "is empty"),
        (AT, b"\xff", "UTF-8"),
        (AT, b"x" * 65_536, "GitHub takes 65536"),
        (AT, None, "No such file"),
    ],
)
def test_a_users_mistake(
    words: tuple[str, ...],
    content: bytes | None,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A mistake in the call is one line that names it, before anything is sent."""
    from harness import cli

    file = tmp_path / "report.md"
    if content is not None:
        file.write_bytes(content)
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:9")
    monkeypatch.setattr(command, "publish", _refuse)
    assert cli.main(["comment", *words, str(file)]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def _refuse(*words: Any) -> None:
    raise AssertionError("something was sent")


def test_no_token_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a token the message says which variable to set."""
    from harness import cli

    (tmp_path / "f").write_text("x")
    for name in ("GITHUB_TOKEN", "GH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert cli.main(["comment", *AT, str(tmp_path / "f")]) == 2
    assert "set GITHUB_TOKEN" in capsys.readouterr().err


@given(st.text(max_size=40), st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True))
def test_any_body_is_found_again(body: str, key: str) -> None:
    """Whatever the text is, it is known by its key alone, and giving it a key twice is giving it once."""
    if not comments.is_key(key):
        return
    made = comments.with_key(body, key)
    assert comments.key_of(made) == key
    assert comments.with_key(made, key) == made
    assert comments.key_of(comments.with_key(made, "another")) == "another"


@pytest.mark.parametrize(
    ("link", "page"),
    [
        ("", None),
        ('<https://a/x?page=2>; rel="next", <https://a/x?page=9>; rel="last"', "https://a/x?page=2"),
        ('<https://a/x?page=1>; rel="prev", <https://a/x?page=3>; rel="next"', "https://a/x?page=3"),
        ('<https://a/x?a=1,2&page=2>; title="q"; rel=next', "https://a/x?a=1,2&page=2"),
        ('<https://a/x?page=1>; rel="prev"', None),
        ('<https://a/x>; rel="nextish"', None),
    ],
)
def test_the_next_page(link: str, page: str | None) -> None:
    """The Link header is read as RFC 8288 writes it."""
    assert github.next_page(link) == page


def test_the_answer_to_graphql_on_a_server_of_ones_own() -> None:
    """A server of one's own has GraphQL beside the REST API, not below it."""
    make: Callable[[str], str] = lambda base: github.GitHub(TOKEN, base)._graphql()  # noqa: E731
    assert make("https://api.github.com/") == "https://api.github.com/graphql"
    assert make("https://git.example.org/api/v3") == "https://git.example.org/api/graphql"
