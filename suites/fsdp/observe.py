"""Writes down what each optimizer step of a session did, from outside, on every rank."""

from __future__ import annotations

import math
from typing import Any

import torch

from harness.targets import states, training
from harness.targets.training import Plan, Session


class Observer:
    """Hooks into a session's optimizer; `steps` holds one dict a step.

    Its keys: step, loss (this rank's mean over its passes), norm (of the gradients, as the target's clipping
    gave it), clipped (the norm that the optimizer saw), rates (by part), moved (largest change by part), samples,
    digest (of this rank's parameters after the step), size (norm of all parameters), finite.
    """

    def __init__(self, plan: Plan, session: Session) -> None:
        self.plan, self.session = plan, session
        self.device = training.device()
        self.steps: list[dict[str, Any]] = []
        full = states.weights(session.model)
        self.start = states.digest(full.values())
        self.shapes = {name: tuple(w.shape) for name, w in full.items()}
        self.count = sum(w.numel() for w in full.values())
        self.replicas = states.replicas(session.model, self.count)
        self.parameters = states.named(session.model)
        session.optimizer.register_step_pre_hook(lambda *_: self._before())
        session.optimizer.register_step_post_hook(lambda *_: self._after())

    def facts(self) -> dict[str, Any]:
        """What is true of the whole run; collective."""
        session = self.session
        full = states.weights(session.model)
        decay: dict[str, float] = {}
        number = {id(p): n for n, p in self.parameters.items()}
        for group in session.optimizer.param_groups:
            decay.update({number[id(p)]: float(group["weight_decay"]) for p in group["params"]})
        moments = states.moments(session.model, session.optimizer, self.shapes) if self.replicas == 1 else {}
        return {
            "start": self.start,
            "weights": states.digest(full.values()),
            "finite": all(bool(w.isfinite().all()) for w in full.values()),
            "moments": states.digest(m for by in moments.values() for m in by.values()),
            "moments_differ": any(
                len(by) == 2 and bool((by["exp_avg"] != by["exp_avg_sq"]).any()) for by in moments.values()
            ),
            "count": self.count,
            "local_count": sum(states.local(p).numel() for p in session.model.parameters()),
            "replicas": self.replicas,
            "groups": [len(g["params"]) for g in session.optimizer.param_groups],
            "decay": decay,
            "parts": {n: session.part_of(n) for n in self.parameters},
            "sizes": {n: math.prod(s) for n, s in self.shapes.items()},
            "accumulation": session.accumulation,
            "tf32": self.device != "cpu"
            and torch.backends.cuda.matmul.allow_tf32,  # vendor-ok: torch's own switch
            "told_world": session.facts.get("told_world"),
        }

    def _before(self) -> None:
        session = self.session
        gradients = [p.grad for p in self.parameters.values() if p.grad is not None]
        rates: dict[str, set[float]] = {}
        for group in session.optimizer.param_groups:
            for parameter in group["params"]:
                rates.setdefault(self._part(parameter), set()).add(float(group["lr"]))
        self._now = {
            "step": session.first_step + len(self.steps),
            "loss": math.fsum(session.losses) / max(1, len(session.losses)),
            "passes": len(session.losses),
            "norm": session.norms[-1] if session.norms else None,
            "clipped": math.sqrt(states.total(states.squares(gradients)) / self.replicas),
            "rates": {part: sorted(r) for part, r in rates.items()},
            "samples": list(session.samples),
        }
        for grown in (session.losses, session.norms, session.samples):
            grown.clear()
        self._kept = {n: states.local(p.detach()).clone() for n, p in self.parameters.items()}

    def _after(self) -> None:
        moved: dict[str, float] = {}
        for name, parameter in self.parameters.items():
            part = self.session.part_of(name)
            change = (states.local(parameter.detach()) - self._kept[name]).abs()
            moved[part] = max(moved.get(part, 0.0), float(change.max()) if change.numel() else 0.0)
        values = list(self.parameters.values())
        size = math.sqrt(states.total(states.squares(values)) / self.replicas)
        self.steps.append({**self._now, "moved": moved, "digest": states.digest(values), "size": size})
        print(f"HARNESS-STEP {self._now['step']}", flush=True)

    def _part(self, parameter: Any) -> str:
        if not hasattr(self, "_parts"):
            self._parts = {id(p): self.session.part_of(n) for n, p in self.parameters.items()}
        return self._parts[id(parameter)]
