"""The reference's model: a vision tower, a text tower and an action head with diffusion noise; VITRA's shape, small."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

WIDTH = 32
PATCH = 16
IMAGE = 64
TOKENS = 64
CHUNK = 8
ACTION = 3
NOISE_LEVELS = 100


class Layer(nn.Module):  # type: ignore[misc]
    """One transformer layer, normalised first."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        # An odd inner width: dimensions that no number of ranks divides are among those that are sharded.
        self.up, self.down = nn.Linear(width, 2 * width + 1), nn.Linear(2 * width + 1, width)

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, 4, -1)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Tower(nn.Module):  # type: ignore[misc]
    """Layers with a normalisation at their end."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Backbone(nn.Module):  # type: ignore[misc]
    """Patches and text in, one feature out: shape (samples, WIDTH)."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Linear(PATCH * PATCH * 3, WIDTH)
        self.places = nn.Parameter(torch.randn((IMAGE // PATCH) ** 2, WIDTH) * 0.02)
        self.vision = Tower(WIDTH, 2)
        self.words = nn.Embedding(TOKENS, WIDTH)
        self.text = Tower(WIDTH, 2)

    def forward(self, image: Any, tokens: Any) -> Any:
        side = IMAGE // PATCH
        cut = image.unflatten(1, (side, PATCH)).unflatten(3, (side, PATCH)).permute(0, 1, 3, 2, 4, 5)
        seen = self.vision(self.patches(cut.flatten(3).flatten(1, 2)) + self.places)
        return self.text(torch.cat([seen, self.words(tokens)], 1))[:, -1]


class Head(nn.Module):  # type: ignore[misc]
    """Guesses the noise in noisy actions, from the feature and the noise's level."""

    def __init__(self) -> None:
        super().__init__()
        self.levels = nn.Embedding(NOISE_LEVELS, WIDTH)
        self.enter = nn.Linear(ACTION, WIDTH)
        self.tower = Tower(WIDTH, 2)
        self.leave = nn.Linear(WIDTH, ACTION)

    def forward(self, noisy: Any, level: Any, feature: Any) -> Any:
        context = (feature + self.levels(level)).unsqueeze(1)
        return self.leave(self.tower(torch.cat([context, self.enter(noisy)], 1))[:, 1:])


class Model(nn.Module):  # type: ignore[misc]
    """Backbone and head; `forward` gives the mean squared error of the guessed noise, per sample and action."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.head = Backbone(), Head()

    def forward(self, batch: dict[str, Any]) -> dict[str, Any]:
        feature = self.backbone(batch["image"], batch["tokens"])
        share = ((batch["level"] + 1) / (NOISE_LEVELS + 1)).to(batch["actions"].dtype)[:, None, None]
        noisy = batch["actions"] * (1 - share).sqrt() + batch["noise"] * share.sqrt()
        guess = self.head(noisy, batch["level"], feature)
        return {"loss": ((guess - batch["noise"]) ** 2).mean()}
