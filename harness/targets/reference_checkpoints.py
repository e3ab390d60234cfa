"""The reference's checkpoints: whole or not at all, hashed, and refused by name when damaged."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from harness.targets import training
from harness.targets.training import Plan, Session

DONE = "DONE.json"
FILES = ("weights.pt", "optimizer.pt", "random.pt")


class DamagedCheckpoint(RuntimeError):
    """A checkpoint's file is missing, cut or altered; the message names it."""


class Checkpoints:
    """Saving and loading; `generator` is this rank's random state."""

    generator: Any

    def state(self, session: Session) -> dict[str, Any]:
        """Full weights and moments by plain name, on every rank."""
        from torch.distributed.checkpoint import state_dict as states

        whole = states.StateDictOptions(full_state_dict=True)
        weights, moments = states.get_state_dict(session.model, session.optimizer, options=whole)
        mine = self.generator.get_state()
        every = [torch.empty_like(mine) for _ in range(training.world())]
        dist.all_gather_object(every, mine)
        return {"weights.pt": weights, "optimizer.pt": moments, "random.pt": {"generators": every}}

    def name(self, step: int) -> str:
        return f"step-{step:06d}"

    def save(self, plan: Plan, session: Session, step: int) -> None:
        """Whole or not at all: written aside, flushed, and renamed once the hashes stand in it."""
        state = self.state(session)
        folder = Path(plan.folder, "checkpoints", self.name(step))
        if training.rank() == 0:
            aside = folder.with_name(f".{folder.name}-{os.getpid()}")
            shutil.rmtree(aside, ignore_errors=True)
            aside.mkdir(parents=True)
            hashes = {name: self.write(aside / name, state[name]) for name in FILES}
            notes = {"step": step, "world": training.world(), "sha256": hashes, "torch": torch.__version__}
            self.finish(aside, folder, notes)
        dist.barrier()

    def write(self, path: Path, value: Any) -> str:
        """Writes a file and flushes it to disk; its SHA-256."""
        torch.save(value, path)
        with path.open("rb+") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else (
                hashlib.sha256(file.read()).hexdigest())  # fmt: skip
            os.fsync(file.fileno())
        return digest

    def finish(self, aside: Path, folder: Path, notes: dict[str, Any]) -> None:
        with (aside / DONE).open("w", encoding="utf-8") as file:
            file.write(json.dumps(notes))
            file.flush()
            os.fsync(file.fileno())
        if folder.exists():
            shutil.rmtree(folder)
        aside.rename(folder)
        for gone in folder.parent.glob(".step-*"):  # left by saves that were killed
            shutil.rmtree(gone, ignore_errors=True)

    def last_checkpoint(self, plan: Plan) -> str | None:
        whole = [p for p in Path(plan.folder, "checkpoints").glob("step-*") if (p / DONE).is_file()]
        return str(max(whole, key=self.number)) if whole else None

    def number(self, folder: Path) -> int:
        return int(folder.name.removeprefix("step-"))

    def load(self, plan: Plan, session: Session, folder: Path) -> int:
        """Puts a checkpoint into the session; the step it was saved after. DamagedCheckpoint names a bad file."""
        from torch.distributed.checkpoint import state_dict as states

        notes = self.verify(folder)
        files = {name: self.read(folder / name) for name in FILES}
        whole = states.StateDictOptions(full_state_dict=True)
        try:
            states.set_state_dict(
                session.model,
                session.optimizer,
                model_state_dict=files["weights.pt"],
                optim_state_dict=files["optimizer.pt"],
                options=whole,
            )
        except (RuntimeError, KeyError, ValueError) as error:
            raise DamagedCheckpoint(f"{folder / 'weights.pt'}: does not fit the model: {error}") from error
        self.recall(files["random.pt"]["generators"])
        del plan
        return int(notes["step"])

    def recall(self, generators: list[Any]) -> None:
        """Random states go on where they stood, when there are as many ranks; else they stay as seeded."""
        if len(generators) == training.world():
            self.generator.set_state(generators[training.rank()])

    def verify(self, folder: Path) -> dict[str, Any]:
        try:
            notes: dict[str, Any] = json.loads((folder / DONE).read_text(encoding="utf-8"))
            hashes = notes["sha256"]
        except (OSError, ValueError, KeyError) as error:
            raise DamagedCheckpoint(f"{folder / DONE}: {error}; the save did not finish") from None
        for name in FILES:
            path = folder / name
            if not path.is_file():
                raise DamagedCheckpoint(f"{path}: is missing; use an earlier checkpoint")
            if hashlib.sha256(path.read_bytes()).hexdigest() != hashes.get(name):
                raise DamagedCheckpoint(
                    f"{path}: its SHA-256 is not the one noted; use an earlier checkpoint"
                )
        return notes

    def read(self, path: Path) -> Any:
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            raise DamagedCheckpoint(f"{path}: cannot be read: {error}") from error
