"""The bar code that tells one frame from another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fixtures import barcode

SIZES = st.tuples(st.integers(96, 260), st.integers(64, 200))
NUMBERS = st.integers(0, 1023)


@pytest.mark.parametrize(("width", "height"), [(96, 64), (131, 97), (128, 128)])
def test_every_number(width: int, height: int) -> None:
    """Each number from 0 to 1023 is read back."""
    image = np.zeros((height, width, 3), np.uint8)
    for number in range(1024):
        barcode.draw(image, number)
        assert barcode.read(image) == number


@settings(deadline=None, max_examples=60)
@given(size=SIZES, number=NUMBERS, noise=st.integers(0, 40), seed=st.integers(0, 2**32 - 1))
def test_any_size_with_noise(size: tuple[int, int], number: int, noise: int, seed: int) -> None:
    """A textured frame of any size, odd ones too, gives its number back through heavy noise."""
    rng = np.random.default_rng(seed)
    clean = barcode.texture(number, *size, rng)
    assert clean.shape == (size[1], size[0], 3)
    assert clean.dtype == np.uint8
    noisy = np.clip(clean + rng.normal(0, noise, clean.shape), 0, 255).astype(np.uint8)
    assert barcode.read(noisy) == number


@settings(deadline=None, max_examples=40)
@given(size=SIZES, number=NUMBERS, step=st.sampled_from([2, 4]))
def test_coarse_pictures(size: tuple[int, int], number: int, step: int) -> None:
    """Chroma and detail may be lost: blocks averaged and values coarse, as a lossy codec leaves them."""
    image = barcode.texture(number, *size, np.random.default_rng(0)).astype(float)
    gray = image.mean(-1)
    height, width = (n // step * step for n in gray.shape)
    blocks = gray[:height, :width].reshape(height // step, step, width // step, step).mean((1, 3))
    coarse = np.kron(np.round(blocks / 32) * 32, np.ones((step, step)))
    assert barcode.read(np.repeat(coarse[..., None], 3, -1)) == number


@settings(deadline=None, max_examples=40)
@given(size=st.tuples(st.integers(1, 200), st.integers(1, 200)), level=st.integers(0, 255))
def test_blank(size: tuple[int, int], level: int) -> None:
    """A picture of one colour, however small, holds no number."""
    assert barcode.read(np.full((size[1], size[0], 3), level, np.uint8)) is None


@settings(deadline=None, max_examples=40)
@given(number=NUMBERS, bit=st.integers(0, 9))
def test_one_block_lost(number: int, bit: int) -> None:
    """One unreadable block makes the whole number unreadable, not another number."""
    image = barcode.texture(number, 128, 128, np.random.default_rng(0))
    image[:64, 128 * bit // 10 : 128 * (bit + 1) // 10] = 128
    assert barcode.read(image) is None


def test_low_contrast() -> None:
    """A number too faint to be told from a codec's error is None."""
    image = barcode.texture(700, 128, 128, np.random.default_rng(0))
    faint = (128 + (image.astype(int) - 128) * 0.2).astype(np.uint8)
    assert barcode.read(faint) is None


def test_neighbours_differ() -> None:
    """Two frames with the same random numbers differ beyond their bar codes: the texture moves."""
    first, second = (barcode.texture(n, 128, 128, np.random.default_rng(0)) for n in (4, 5))
    assert np.abs(first[64:].astype(int) - second[64:]).mean() > 3


@pytest.mark.parametrize("number", [-1, 1024])
def test_number_out_of_range(number: int) -> None:
    """A number that ten bits cannot hold is refused."""
    with pytest.raises(ValueError, match="0 to 1023"):
        barcode.draw(np.zeros((64, 96, 3), np.uint8), number)
