"""Reads from a store how the metrics of a run went over the runs before it."""

from __future__ import annotations

from harness.merged import Story
from harness.records import Header
from harness.verdicts import Judgement

LAST = 100
"""So many runs of a metric are told."""


def read(place: str, header: Header, judgement: Judgement) -> tuple[Story, ...]:
    """One story a judged metric and test of the run, of its own kind of machine, target and patches alone.

    UsageError and StoreError for a place that cannot be read or holds no run.
    """
    import json

    from harness.history import query, words

    wanted = {
        (m.test, m.metric) for m in judgement.metrics if m.verdict != "shown" and m.statistic == "median"
    }
    reader = query.read(place)
    stories = []
    for metric in sorted({m for _, m in wanted}):
        found = [
            s
            for s in reader.series(metric, runner=header.runner.key, last=LAST)
            if (s.test, s.metric) in wanted
            and s.target == header.target.name
            and tuple(json.loads(s.patches)) == header.target.patches
            and s.configuration == header.configuration_digest
        ]
        for told in words.tell(found):
            points = told.usable
            stories.append(
                Story(
                    told.series.test,
                    metric,
                    told.series.unit,
                    tuple(p.run_id for p in points),
                    tuple(p.started.isoformat() for p in points),
                    tuple(p.value for p in points if p.value is not None),
                    tuple(p.target_commit for p in points),
                    tuple(c.index for c in told.segments.changes),
                )
            )
    return tuple(stories)
