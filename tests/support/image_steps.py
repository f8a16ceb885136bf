"""Preprocessing of images in numpy, channels last, as reference of graphs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

CHANNELS = {"bgr": "BGR", "rgb": "RGB", "rgba": "RGBA", "argb32": "BGRA"}


def decoded(planes: np.ndarray, source: str) -> np.ndarray:
    """Return RGB [batch, height, width, 3] of NV12 or NV21, as JFIF 1.02 does."""
    batch, rows, width = planes.shape
    height = rows * 2 // 3
    values = planes.astype(np.float64)
    luma = values[:, :height]
    chroma = values[:, height:].reshape(batch, height // 2, width // 2, 2).repeat(2, 1).repeat(2, 2) - 128
    blue, red = (chroma[..., 0], chroma[..., 1]) if source == "nv12" else (chroma[..., 1], chroma[..., 0])
    rgb = (luma + 1.402 * red, luma - 0.344136 * blue - 0.714136 * red, luma + 1.772 * blue)
    return np.clip(np.stack(rgb, -1), 0, 255)


def resized(image: np.ndarray, size: Sequence[int], mode: str) -> np.ndarray:
    """Return an image in another size, as OpenCV and PyTorch do without smoothing."""
    for axis, size_after in ((1, size[0]), (2, size[1])):
        size_before = image.shape[axis]
        if mode == "nearest":
            image = image.take(np.arange(size_after) * size_before // size_after, axis)
            continue
        # In float32, whose rounding of places far from zero shows in images of noise.
        centres = np.arange(size_after, dtype=np.float32) + np.float32(0.5)
        places = np.clip(centres / np.float32(size_after / size_before) - np.float32(0.5), 0, size_before - 1)
        low = np.floor(places).astype(int)
        part = (places - low).reshape([-1 if at == axis else 1 for at in range(4)])
        image = (
            image.take(low, axis) * (1 - part) + image.take(np.minimum(low + 1, size_before - 1), axis) * part
        )
    return image


def preprocessed(
    fed: np.ndarray,
    size: tuple[int, int],
    encoding: str | Sequence[str] = ("rgb", "rgb"),
    crop: Sequence[int] = (),
    resize: str | Sequence[object] = (),
    mean: float | Sequence[float] = 0.0,
    scale: float | str | Sequence[float] = 1.0,
) -> np.ndarray:
    """Return the network's float32 image [batch, *size, channels] of fed values."""
    source, target = [*(encoding.split() if isinstance(encoding, str) else encoding), "bgr"][:2]
    image, channels = np.asarray(fed, np.float64), CHANNELS.get(source, "RGB")
    if source in ("nv12", "nv21"):
        image = decoded(fed, source)
    resize = resize.split(",") if isinstance(resize, str) else list(resize)
    if crop:
        rows, columns = (int(dim) for dim in resize[:2]) if resize else size
        top, left = (image.shape[1] - rows) // 2, (image.shape[2] - columns) // 2
        if len(crop) == 4:
            top, left = crop[:2]
        image = image[:, top : top + rows, left : left + columns]
    if resize:
        image = resized(image, size, str(resize[2]) if len(resize) > 2 else "bilinear")
    if source != target:
        image = image[..., [channels.index(channel) for channel in CHANNELS[target]]]
    return ((image - np.asarray(mean, float)) * np.asarray(scale, float)).astype(np.float32)
