"""The report as JUnit XML: what is not green is a failure or an error there, never a pass."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable

from harness.merged import Column, Merged
from harness.report_parts import junit_cases, parts
from harness.report_parts.junit_cases import Case, Result

NAME = "junit"


def render(merged: Merged, *, width: int = 110, color: bool = False) -> str:
    """One `testsuite` a run and suite, and more for metrics, traces and what says that there is no verdict.

    Its test cases are all passed or skipped if, and only if, the report is green.
    """
    del width, color
    root = ET.Element("testsuites", {"name": "harness"})
    seen: Counter[tuple[str, str]] = Counter()
    for column in merged.columns:
        for name, cases in junit_cases.of_column(merged, column):
            _add(root, f"{column.name} {name}", cases, seen, column)
    for name, cases in junit_cases.of_all(merged):
        _add(root, name, cases, seen)
    _count(root, root.iter("testcase"))
    if merged.status != "green" and root.get("failures") == root.get("errors") == "0":
        kind: Result = "failure" if merged.status == "red" else "error"
        _add(root, "verdict", [Case("verdict", "run", kind, merged.headline, merged.status)], seen)
        _count(root, root.iter("testcase"))
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _add(
    root: ET.Element,
    name: str,
    cases: Iterable[Case],
    seen: Counter[tuple[str, str]],
    column: Column | None = None,
) -> None:
    """One test suite; `seen` counts names, since readers take two cases of one name for one test."""
    suite = ET.SubElement(root, "testsuite", {"name": parts.plain(name)})
    facts: dict[str, str] = {}
    if column is not None:
        header = column.run.header
        suite.set("timestamp", parts.plain(header.started))
        suite.set("hostname", parts.plain(str(header.machine.get("host") or "unknown")))
        facts = {
            "status": column.judgement.status,
            "headline": column.judgement.headline,
            "emulated": str(column.emulated).lower(),
            **dict(parts.where(header)),
        }
    _properties(suite, facts)
    for case in cases:
        _case(suite, case, seen)
    _count(suite, suite.iter("testcase"))


def _case(suite: ET.Element, case: Case, seen: Counter[tuple[str, str]]) -> None:
    name, group = parts.plain(case.name), parts.plain(case.group)
    seen[group, name] += 1
    again = f" ({seen[group, name]})" if seen[group, name] > 1 else ""
    words = {"name": f"{name}{again}", "classname": group, "time": f"{case.duration_s:.3f}"}
    if case.file is not None:
        words["file"] = case.file
    if case.line is not None:
        words["line"] = str(case.line)
    element = ET.SubElement(suite, "testcase", {n: parts.plain(v) for n, v in words.items()})
    _properties(element, case.facts)
    if case.result != "passed":
        told = ET.SubElement(
            element, case.result, {"message": parts.plain(case.message), "type": parts.plain(case.type)}
        )
        told.text = parts.plain(case.detail) or None
    if case.output:
        ET.SubElement(element, "system-out").text = parts.plain(case.output)


def _properties(element: ET.Element, facts: dict[str, str]) -> None:
    if facts:
        found = ET.SubElement(element, "properties")
        for name, value in facts.items():
            ET.SubElement(found, "property", {"name": parts.plain(name), "value": parts.plain(value)})


def _count(element: ET.Element, cases: Iterable[ET.Element]) -> None:
    found = list(cases)
    element.set("tests", str(len(found)))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(attribute, str(sum(c.find(tag) is not None for c in found)))
    element.set("time", f"{sum(float(c.get('time', 0)) for c in found):.3f}")
