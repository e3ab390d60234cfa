"""A small client of GitHub's REST API: who the token is, and the comments of a pull request.

A request that GitHub puts off, or fails to answer, is asked again a few times with longer pauses. The token goes to the
API's own origin alone, and stands in no message.
"""

from __future__ import annotations

import http.client
import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from typing import IO, Any
from urllib.parse import urlsplit

from harness.errors import UsageError

API = "https://api.github.com"
TRIES = 5
LONGEST_WAIT_S = 120.0
"""A pause longer than this is not waited for: the job has a time limit, and pays for waiting."""
_NO_HINT_S = 60.0
"""GitHub asks for so long a pause when it puts off and names none."""
_UNSURE_S = 2.0
"""Before anybody looks whether a request was carried out."""
_TIMEOUT_S = 30.0
_PAGE = 100
_PAGES = 100
_ANSWER_BYTES = 32 << 20


class GitHubError(UsageError):
    """GitHub refused, or did not answer; the message says what to do."""


class Unsure(GitHubError):
    """A request that changes something got no answer: it may have been carried out."""


@dataclass(frozen=True)
class Comment:
    """One comment of a pull request; `author` is a login, None when the account is gone."""

    id: int
    author: str | None
    body: str
    url: str


@dataclass(frozen=True)
class Answer:
    """What came back; `headers` by lower-case name."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class _Stays(urllib.request.HTTPRedirectHandler):
    """No redirect is followed: it would carry the token to wherever it points."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        return None


class GitHub:
    """The API under `base`, asked with `token`; `pause` is given the seconds to wait."""

    def __init__(self, token: str, base: str = API, pause: Callable[[float], None] = time.sleep) -> None:
        self._token, self._pause = token.strip(), pause
        if not re.fullmatch(r"[!-~]+", self._token):
            raise UsageError("the token is empty or holds characters that no token has; set GITHUB_TOKEN")
        self._base = base.rstrip("/")
        split = urlsplit(self._base)
        local = split.hostname in ("localhost", "127.0.0.1", "::1")
        if not split.netloc or not (split.scheme == "https" or (split.scheme == "http" and local)):
            raise UsageError(f"GITHUB_API_URL={base!r}: must begin with https://")
        if "@" in split.netloc:
            raise UsageError("GITHUB_API_URL must hold no user name")
        direct = (urllib.request.ProxyHandler({}),) if local else ()
        self._opener = urllib.request.build_opener(_Stays, *direct)

    def whoami(self) -> str:
        """The login that comments made with this token have; `github-actions[bot]` for a workflow's own token.

        GraphQL answers it for every kind of token; `GET /user` refuses those of apps.
        """
        answer = self._ask("POST", self._graphql(), {"query": "{ viewer { login } }"}, again=True)
        login = _at(self._json(answer), "data", "viewer", "login")
        if not isinstance(login, str) or not login:
            raise GitHubError(
                "GitHub did not say whom the token belongs to; use the workflow's own GITHUB_TOKEN"
            )
        return login

    def comments(self, repository: str, pull: int) -> Iterator[Comment]:
        """The comments of a pull request, oldest first, over all pages."""
        url = f"{self._base}/repos/{repository}/issues/{pull}/comments?per_page={_PAGE}"
        for _ in range(_PAGES):
            answer = self._ask("GET", url, None, again=True, about=f"{repository} pull request {pull}")
            found = self._json(answer)
            if not isinstance(found, list):
                raise GitHubError(f"GITHUB_API_URL={self._base}: its answer is no list of comments")
            yield from map(_comment, found)
            following = next_page(answer.headers.get("link", ""))
            if following is None:
                return
            if _origin(following) != _origin(self._base):
                raise GitHubError(f"the next page of comments is at another host: {following[:200]!r}")
            url = following

    def post(self, repository: str, pull: int, body: str) -> Comment:
        """Writes a new comment; Unsure when nobody knows whether it is there now."""
        url = f"{self._base}/repos/{repository}/issues/{pull}/comments"
        about = f"{repository} pull request {pull}"
        return _comment(self._json(self._ask("POST", url, {"body": body}, again=False, about=about)))

    def edit(self, repository: str, comment: int, body: str) -> Comment:
        """Gives a comment another text."""
        url = f"{self._base}/repos/{repository}/issues/comments/{comment}"
        about = f"{repository} comment {comment}"
        return _comment(self._json(self._ask("PATCH", url, {"body": body}, again=True, about=about)))

    def _graphql(self) -> str:
        """A server of one's own has it beside `/api/v3`, not below."""
        if self._base.endswith("/api/v3"):
            return self._base.removesuffix("v3") + "graphql"
        return f"{self._base}/graphql"

    def _ask(
        self,
        method: str,
        url: str,
        content: Mapping[str, Any] | None,
        *,
        again: bool,
        about: str = "the token",
    ) -> Answer:
        """The answer to a request; asked again when GitHub put it off, and, where `again` may do no harm, when it failed."""
        why, wait = "", 0.0
        for number in range(1, TRIES + 1):
            try:
                answer = self._once(method, url, content)
            except (OSError, http.client.HTTPException) as error:
                why, asked, put_off = f"no answer ({type(error).__name__}: {error})", None, False
            else:
                if answer.status < 300:
                    return answer
                put_off = is_put_off(answer)
                if not put_off and answer.status < 500:
                    raise GitHubError(self._hidden(refusal(answer, about)))
                why, asked = f"{answer.status} {_message(answer)}".strip(), wait_of(answer, time.time())
            if not (again or put_off):
                self._pause(_UNSURE_S)
                raise Unsure(self._hidden(f"{_host(url)}: {why}; run the step again later"))
            wait = asked if asked is not None else _NO_HINT_S if put_off else 2.0 ** (number - 1)
            if number == TRIES or wait > LONGEST_WAIT_S:
                break
            self._pause(wait)
        tail = f"it asks to wait {wait:.0f} s" if wait > LONGEST_WAIT_S else f"asked {TRIES} times"
        raise GitHubError(self._hidden(f"{_host(url)}: {why}; {tail}; run the step again later"))

    def _once(self, method: str, url: str, content: Mapping[str, Any] | None) -> Answer:
        data = None if content is None else json.dumps(content).encode()
        headers = {
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "User-Agent": "vitra-harness",
        }
        if data is not None:
            headers["Content-Type"] = "application/json"
        request = urllib.request.Request(url, data=data, headers=headers, method=method)
        request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            with self._opener.open(request, timeout=_TIMEOUT_S) as reply:
                return _answer(reply.status, reply.headers, reply.read(_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                return _answer(error.code, error.headers, error.read(_ANSWER_BYTES))

    def _json(self, answer: Answer) -> Any:
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError):
            raise GitHubError(f"GITHUB_API_URL={self._base}: its answer is no JSON") from None

    def _hidden(self, text: str) -> str:
        return text.replace(self._token, "***")


def is_put_off(answer: Answer) -> bool:
    """Whether GitHub refused for the rate alone; nothing was done then."""
    if answer.status == 429:
        return True
    limited = answer.headers.get("x-ratelimit-remaining") == "0" or "retry-after" in answer.headers
    return answer.status == 403 and (limited or "rate limit" in _message(answer).lower())


def wait_of(answer: Answer, now: float) -> float | None:
    """The seconds that GitHub asks to wait; None when it names none. `now`: seconds since 1970."""
    for name, since in (("retry-after", 0.0), ("x-ratelimit-reset", now)):
        if name == "x-ratelimit-reset" and answer.headers.get("x-ratelimit-remaining") != "0":
            continue
        if re.fullmatch(r"\d{1,12}", answer.headers.get(name, "")):
            return max(0.0, float(answer.headers[name]) - since)
    return None


def refusal(answer: Answer, about: str) -> str:
    """What a refusal means for the user, and what to do."""
    said = _message(answer)
    why = {
        401: "GitHub does not know the token (401): it is wrong or over; pass secrets.GITHUB_TOKEN as GITHUB_TOKEN",
        403: f"the token may not do this to {about} (403): give the job `permissions: pull-requests: write`; a run for "
        "a fork has a token that only reads, so comment from a workflow_run job",
        404: f"{about} is not there, or the token does not see it (404): check --repository and --pull",
    }.get(answer.status)
    if why is None and 300 <= answer.status < 400:
        why = f"{about} has moved ({answer.status}): name the repository as it is called now"
    if why is None:
        why = f"GitHub refused for {about} ({answer.status}): mend what it says"
    return f"{why}; GitHub says: {said}" if said else why


def next_page(link: str) -> str | None:
    """The address of the next page in a Link header; None on the last one."""
    for found in re.finditer(r"<([^>]*)>((?:\s*;[^,<]*)*)", link):
        if re.search(r';\s*rel="?next"?\s*(;|$)', found[2]):
            return found[1]
    return None


def _answer(status: int, headers: Message, body: bytes) -> Answer:
    return Answer(status, {name.lower(): value for name, value in headers.items()}, body)


def _message(answer: Answer) -> str:
    """GitHub's own words about a refusal, on one line."""
    try:
        said = _at(json.loads(answer.body), "message")
    except (ValueError, RecursionError):
        return ""
    text = " ".join(said.split()) if isinstance(said, str) else ""
    return "".join(c if c.isprintable() else "\ufffd" for c in text)[:200]


def _comment(value: Any) -> Comment:
    number, login = _at(value, "id"), _at(value, "user", "login")
    if not isinstance(number, int):
        raise GitHubError("GitHub's answer holds a comment without a number; check GITHUB_API_URL")
    author = login if isinstance(login, str) else None
    return Comment(number, author, str(_at(value, "body") or ""), str(_at(value, "html_url") or ""))


def _at(value: Any, *names: str) -> Any:
    """What lies under these names; None where there is no such thing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _origin(url: str) -> tuple[str, str]:
    split = urlsplit(url)
    return split.scheme, split.netloc


def _host(url: str) -> str:
    return urlsplit(url).netloc
