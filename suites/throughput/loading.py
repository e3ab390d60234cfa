"""Takes batches of the target's own data set from torch's loader, a turn at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from suites.throughput import data, plans

TIMEOUT_S = 60.0


class Loader:
    """A loader that starts its workers with the first turn. `seen`: how many items have come out of it."""

    def __init__(self, dataset: Any, workers: int, turns: int) -> None:
        from torch.utils.data import DataLoader

        self.batches = plans.batches_of_a_turn(workers)
        self.samples = self.batches * plans.BATCH
        # Beyond the last turn, or the workers would have less and less to do towards the end.
        length = (turns + 2) * self.samples
        self._loader = DataLoader(
            dataset,
            batch_size=plans.BATCH,
            sampler=data.order(len(dataset), length),
            num_workers=workers,
            collate_fn=list,
            multiprocessing_context="fork" if workers else None,
            timeout=TIMEOUT_S if workers else 0,
        )
        self._left: Iterator[list[Any]] | None = None
        self.seen = 0

    def turn(self) -> None:
        """Takes as many batches as make one sample."""
        if self._left is None:
            self._left = iter(self._loader)
        for _ in range(self.batches):
            self.seen += len(next(self._left))

    def close(self) -> None:
        """Ends the workers."""
        self._left = None
