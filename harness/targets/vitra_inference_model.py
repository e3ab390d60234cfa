"""VITRA's model in inference: built by its own `build_vla`, asked through its own `predict_action`, both unmodified."""

from __future__ import annotations

import importlib
from typing import Any

from harness.targets.training import Plan
from harness.targets.vitra_pairing import wake_head
from harness.targets.vitra_supplies import stay_on_cpu, supply
from harness.targets.vitra_training import CHUNK, variant

FIELD_OF_VIEW = 1.0
"""Horizontal and vertical, in radians."""


class VitraPolicy:
    """The tiny PaliGemma with the DiT-T head and fixed random weights, ready on a device."""

    batch, horizon = 1, CHUNK

    def __init__(self, path: str, device: str) -> None:
        import torch

        supply()
        builder: Any = importlib.import_module("vitra.models.vla_builder")
        chosen = variant(path, Plan(data="", folder=""))
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.model = builder.build_vla(chosen)
        wake_head(self.model)
        self.model = self.model.to(device).eval()
        self.dimensions = int(chosen["action_model"]["action_dim"])
        width = int(chosen["state_encoder"]["state_dim"])
        self.state = torch.zeros(self.batch, width)
        self.mask = torch.ones(self.batch, width, dtype=torch.bool)
        self.view = torch.full((self.batch, 2), FIELD_OF_VIEW)

    def predict(self, image: Any, instruction: str) -> Any:
        """As `harness.targets.base.Policy` has it; the hands' current state is the mean one."""
        import torch

        with torch.inference_mode(), stay_on_cpu():
            return self.model.predict_action(image, instruction, self.state, self.mask, fov=self.view)
