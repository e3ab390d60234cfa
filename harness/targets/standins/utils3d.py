"""Stands in for EasternJournalist/utils3d (on no index): the nine functions that VITRA's augmentation calls.

Written from their meaning: pinhole cameras with intrinsics normalised to a picture of width and height 1, u to the
right, v down. Any other function says that it needs the real package.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np


def focal_to_fov(focal: Any) -> Any:
    """Angle of view, in radians, of a normalised focal length."""
    return 2 * np.arctan(0.5 / focal)


def fov_to_focal(fov: Any) -> Any:
    """Normalised focal length of an angle of view in radians."""
    return 0.5 / np.tan(0.5 * fov)


def intrinsics_to_fov(intrinsics: Any) -> tuple[Any, Any]:
    """Horizontal and vertical angles of view of matrices of shape (..., 3, 3)."""
    return focal_to_fov(intrinsics[..., 0, 0]), focal_to_fov(intrinsics[..., 1, 1])


def intrinsics_from_focal_center(fx: Any, fy: Any, cx: Any, cy: Any) -> Any:
    """The intrinsics, shape (3, 3), float32."""
    found = np.eye(3, dtype=np.float32)
    found[0, 0], found[1, 1], found[0, 2], found[1, 2] = fx, fy, cx, cy
    return found


def unproject_cv(uv: Any, depth: Any, intrinsics: Any) -> Any:
    """Points, shape (N, 3), seen at uv of shape (N, 2) in depths of shape (N,)."""
    rays = np.linalg.solve(intrinsics, np.concatenate([uv, np.ones((len(uv), 1), uv.dtype)], 1).T).T
    return (rays * np.asarray(depth)[:, None]).astype(uv.dtype)


def rotation_matrix_from_vectors(source: Any, target: Any) -> Any:
    """The smallest rotation, shape (3, 3), that turns one direction into another (Rodrigues)."""
    a, b = (np.asarray(v, float) / np.linalg.norm(v) for v in (source, target))
    x, y, z = np.cross(a, b)
    skew = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return (np.eye(3) + skew + skew @ skew / (1 + a @ b)).astype(np.asarray(source).dtype)


def ray_intersection(start: Any, along: Any, other_start: Any, other_along: Any) -> tuple[Any, Any]:
    """Where lines of the plane meet, shape (..., 2), and how far along the first ones."""
    start, along, other_start, other_along = np.broadcast_arrays(start, along, other_start, other_along)

    def cross(a: Any, b: Any) -> Any:
        return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]

    far = cross(other_start - start, other_along) / cross(along, other_along)
    return start + far[..., None] * along, far


def image_uv(width: int, height: int) -> Any:
    """The uv of each pixel's centre, shape (height, width, 2), float32."""
    u = (np.arange(width, dtype=np.float32) + 0.5) / width
    v = (np.arange(height, dtype=np.float32) + 0.5) / height
    return np.stack(np.meshgrid(u, v), axis=-1)


def uv_to_pixel(uv: Any, width: int, height: int) -> Any:
    """Pixel coordinates, in which a pixel's centre is a whole number."""
    return uv * np.array([width, height], dtype=uv.dtype) - 0.5


numpy = SimpleNamespace(
    fov_to_focal=fov_to_focal,
    image_uv=image_uv,
    intrinsics_from_focal_center=intrinsics_from_focal_center,
    intrinsics_to_fov=intrinsics_to_fov,
    ray_intersection=ray_intersection,
    uv_to_pixel=uv_to_pixel,
)


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotImplementedError(
        f"utils3d.{name}: the stand-in does not have it; install github.com/EasternJournalist/utils3d"
    )
