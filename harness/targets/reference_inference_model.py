"""The reference's model in inference: an instruction and a picture in, a chunk of actions out by a few denoising steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from harness.targets.reference_model import ACTION, CHUNK, IMAGE, NOISE_LEVELS, TOKENS, Model

STEPS = 10
WORDS = 4


class ReferencePolicy:
    """The model with fixed random weights, ready on a device; each part of an inference is a method of its own."""

    batch, horizon, dimensions = 1, CHUNK, ACTION

    def __init__(self, device: str) -> None:
        self.device = device
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.model = Model().eval().to(device)

    def predict(self, image: Any, instruction: str) -> Any:
        """As `harness.targets.base.Policy` has it; equal inputs give equal actions."""
        with torch.inference_mode():
            feature = self.model.backbone(self.see(image), self.read(instruction))
            return self.sample(feature).cpu().numpy()

    def see(self, image: Any) -> Any:
        """The picture as the model takes it: shape (1, IMAGE, IMAGE, 3), values -1 to 1."""
        whole = torch.as_tensor(image)
        cut = whole[:: len(whole) // IMAGE, :: whole.shape[1] // IMAGE][:IMAGE, :IMAGE]
        return (cut.to(self.device, torch.float32) / 127.5 - 1)[None]

    def read(self, instruction: str) -> Any:
        """The instruction as the model takes it: its first letters, shape (1, WORDS)."""
        letters = [ord(c) % TOKENS for c in instruction[:WORDS].ljust(WORDS)]
        return torch.tensor([letters], device=self.device)

    def levels(self) -> Iterator[int]:
        """Noise levels from the highest down."""
        for step in range(STEPS):
            yield NOISE_LEVELS - 1 - step * NOISE_LEVELS // STEPS

    def sample(self, feature: Any) -> Any:
        """Actions of shape (batch, CHUNK, ACTION) out of noise, which comes from a CPU generator."""
        generator = torch.Generator().manual_seed(0)
        noisy = torch.randn(len(feature), CHUNK, ACTION, generator=generator).to(self.device)
        plain = noisy
        levels = list(self.levels())
        for level, after in zip(levels, [*levels[1:], -1], strict=True):
            guess = self.model.head(noisy, torch.tensor([level], device=self.device), feature)
            plain = (noisy - guess * self.share(level) ** 0.5) / (1 - self.share(level)) ** 0.5
            noisy = plain * (1 - self.share(after)) ** 0.5 + guess * self.share(after) ** 0.5
        return plain

    def share(self, level: int) -> float:
        """How much of a noisy action is noise at a level, as in training; none at -1."""
        return (level + 1) / (NOISE_LEVELS + 1)
