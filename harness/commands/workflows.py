"""`harness workflows`: the steps of a CI workflow, each one command that also runs on a desk."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, UsageError

HELP = "steps of a CI workflow: session, pack, carry, merge, decide, history, accept, pull"

STATUS = "status.json"


def add(parser: argparse.ArgumentParser) -> None:
    """The command's actions."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    session = actions.add_parser(
        "session", help="run a runner's preflight or suites by nox, with a time limit"
    )
    session.add_argument("runner", metavar="RUNNER")
    session.add_argument("--part", choices=["preflight", "suites"], required=True)
    session.add_argument("--folder", type=Path, required=True, metavar="DIR", help="new folder of the run")
    session.add_argument(
        "--minutes", type=float, default=60.0, metavar="N", help="the step's time limit (default: 60)"
    )
    session.add_argument("--words", default="[]", metavar="JSON", help="a list; more words for the suites")
    session.set_defaults(run=_session)
    pack = actions.add_parser("pack", help="pack the checkpoint bundle of a runner")
    pack.add_argument("runner", metavar="RUNNER")
    pack.add_argument("--folder", type=Path, required=True, metavar="DIR", help="where RUNNER.tar goes")
    pack.set_defaults(run=_pack)
    carry = actions.add_parser("carry", help="verify the others' bundles on this machine")
    carry.add_argument("runner", metavar="RUNNER")
    carry.add_argument("--bundles", type=Path, required=True, metavar="DIR")
    carry.add_argument(
        "--run", type=Path, required=True, metavar="RUN", dest="run_folder", help="its own run"
    )
    carry.add_argument(
        "--into",
        type=Path,
        required=True,
        metavar="DIR",
        help="new copy of the run, which keeps what is told",
    )
    carry.set_defaults(run=_carry)
    for each in (session, pack, carry):
        each.add_argument(
            "--target", default="[]", metavar="JSON", help='a list, for example ["--target=vitra"]'
        )
    merge = actions.add_parser("merge", help="one report of all runners, in every form")
    merge.add_argument("--into", type=Path, required=True, metavar="DIR", help="where the reports go")
    merge.add_argument("--form", action="append", metavar="NAME", help="only this form (repeatable)")
    merge.add_argument("--expect", action="append", default=[], metavar="RUNNER", help="who must report, too")
    merge.add_argument("--store", metavar="PLACE", help="history of the metrics")
    merge.set_defaults(run=_merge)
    decide = actions.add_parser(
        "decide", help="end with the status of the merged report; 3 when a job failed"
    )
    decide.add_argument("folder", metavar="DIR", type=Path, help="where `merge` wrote")
    decide.add_argument("--jobs", default="{}", metavar="JSON", help="the jobs before, and their results")
    decide.set_defaults(run=_decide)
    history = actions.add_parser("history", help="add the runs to a store and compact it")
    history.add_argument("--store", required=True, metavar="PLACE")
    history.set_defaults(run=_history)
    accept = actions.add_parser("accept", help="accept the runs as baseline")
    accept.add_argument("--reason", required=True, metavar="TEXT")
    accept.add_argument(
        "--runners", default="[]", metavar="JSON", help="only the runs of these (default: all)"
    )
    accept.set_defaults(run=_accept)
    for each in (merge, history, accept):
        each.add_argument("artifacts", metavar="ARTIFACTS", type=Path, help="folder of downloaded artifacts")
    pull = actions.add_parser("pull", help="the open pull request of a commit, from GitHub's answer on stdin")
    pull.add_argument("--commit", required=True, metavar="SHA", help="what was tested")
    pull.set_defaults(run=_pull)


def _session(options: argparse.Namespace) -> int:
    from harness import workflow_session as steps

    return steps.session(
        options.runner,
        folder=options.folder,
        preflight=options.part == "preflight",
        target=steps.words_of(options.target, "--target"),
        words=steps.words_of(options.words, "--words"),
        minutes=options.minutes,
    )


def _pack(options: argparse.Namespace) -> int:
    from harness import workflow_session as steps

    bundle = options.folder / f"{options.runner}.tar"
    return steps.pack(options.runner, bundle, target=steps.words_of(options.target, "--target"))


def _carry(options: argparse.Namespace) -> int:
    from harness import workflow_session as steps

    target = steps.words_of(options.target, "--target")
    return steps.carry(
        options.runner, options.bundles, run_folder=options.run_folder, into=options.into, target=target
    )


def _merge(options: argparse.Namespace) -> int:
    """Ends with 0 when the reports are written, whatever they say; `decide` tells the verdict."""
    from harness import artifacts, reports
    from harness.commands.report import collect, write_forms

    found = artifacts.find(options.artifacts, _status, tuple(options.expect))
    for trouble in found.troubles:
        print(f"harness: {trouble}", file=sys.stderr)
    options.into.mkdir(parents=True, exist_ok=True)
    forms = options.form or reports.names()
    status, failed = 3, False
    try:
        if found.runs:
            content = collect(
                found.runs,
                artifacts.baselines(options.artifacts),
                store=options.store or None,
                expected=found.expected,
                off=artifacts.off(options.artifacts),
            )
            write_forms(content, forms, options.into)
            status = content.exit_status
        else:
            _write_nobody(found.expected, forms, options.into)
    except HarnessError as error:
        print(f"harness: {error}", file=sys.stderr)
        status, failed = int(getattr(error, "exit_status", 2)), True
    told = {"exit_status": status, "troubles": list(found.troubles)}
    (options.into / STATUS).write_text(json.dumps(told) + "\n", encoding="utf-8")
    return 2 if failed else 0


def _status(run: Path, baselines: Path) -> str:
    from harness.commands.report import judged

    return judged(run, baselines)[1].status


def _write_nobody(expected: Sequence[str], forms: Sequence[str], into: Path) -> None:
    """In the forms that people see first: that there is no run to report."""
    from harness import reports

    names = ", ".join(expected) or "no runner was expected"
    page = f"# NO VERDICT: no runner reported\n\nExpected: {names}. The logs of the jobs say why.\n"
    texts = dict.fromkeys(("markdown", "pull_request", "summary"), page)
    texts["annotations"] = "::error title=NO VERDICT::no runner reported\n"
    for form in forms:
        if form in texts:
            (into / reports.file_of(form)).write_text(texts[form], encoding="utf-8")


def _decide(options: argparse.Namespace) -> int:
    from harness.merged import EXIT, WORDS

    try:
        told = json.loads((options.folder / STATUS).read_text(encoding="utf-8"))
        status, troubles = int(told["exit_status"]), list(told["troubles"])
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(f"{options.folder}: no reports there; `harness workflows merge` failed") from None
    try:
        results = {str(k): str(v["result"]) for k, v in json.loads(options.jobs or "{}").items()}
    except (ValueError, AttributeError, KeyError, TypeError):
        raise UsageError("--jobs: write the context `needs` as JSON") from None
    failed = [f"job {name}: {result}" for name, result in results.items() if result != "success"]
    failed += [str(t) for t in troubles]
    word = next((WORDS[s] for s, n in EXIT.items() if n == status), "NO REPORT")
    if status == 0 and failed:
        print(f"NO VERDICT: the report is green, and not all that it should rest on: {'; '.join(failed)}")
        return 3
    print("; ".join([word, *failed]))
    return status


def _history(options: argparse.Namespace) -> int:
    from harness import artifacts

    found = artifacts.find(options.artifacts, _status)
    if not found.runs:
        raise UsageError(f"{options.artifacts}: no run of any runner; the logs of the jobs say why")
    status = _harness("history", "add", *map(str, found.runs), "--store", options.store)
    return status or _harness("history", "compact", "--store", options.store)


def _accept(options: argparse.Namespace) -> int:
    from harness import artifacts, rundir
    from harness import workflow_session as steps

    chosen = steps.words_of(options.runners, "--runners")
    runs = {rundir.read_header(r).runner.name: r for r in artifacts.find(options.artifacts, _status).runs}
    missing = [n for n in chosen if n not in runs]
    if missing or not runs:
        there = ", ".join(runs) or "none"
        raise UsageError(f"{', '.join(missing) or options.artifacts}: no run to accept; there are: {there}")
    # Runs of unlike machines are accepted apart; one that is refused ends it, and nothing of all that is proposed.
    for name in chosen or runs:
        status = _harness("baseline", "accept", str(runs[name]), "--reason", options.reason)
        if status:
            return status
    return 0


def _pull(options: argparse.Namespace) -> int:
    """An output of a step, empty when there is none: what a stranger's artifacts say of the number is not asked."""
    try:
        pulls = [dict(p) for p in _list(json.load(sys.stdin))]
        numbers = [
            int(p["number"]) for p in pulls if p["state"] == "open" and p["head"]["sha"] == options.commit
        ]
    except (ValueError, KeyError, TypeError):
        raise UsageError(
            "stdin: no list of pull requests; give the answer of repos/OWNER/NAME/pulls"
        ) from None
    if not numbers:
        print(f"harness: no open pull request ends with {options.commit}", file=sys.stderr)
    print(f"number={numbers[0] if numbers else ''}")
    return 0


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("no list")
    return value


def _harness(*words: str) -> int:
    """Another command of the harness, as its users give it."""
    from harness import cli

    sys.stdout.flush()
    return cli.main(words)
