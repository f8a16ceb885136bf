"""Caffe nets made in code: texts, and weights in every form of a .caffemodel."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import xdlc
from tests.support.protobuf import field, varint

Arrays = Sequence[np.ndarray]


def blob(array: np.ndarray) -> bytes:
    """Return a BlobProto with its shape and packed data."""
    shape = field(1, b"".join(map(varint, array.shape)))
    return field(7, shape) + field(5, np.asarray(array, "<f4").tobytes())


def old_blob(array: np.ndarray) -> bytes:
    """Return a BlobProto with four sizes, and a key for each number."""
    sizes = (1,) * (4 - array.ndim) + array.shape
    head = b"".join(field(number, size) for number, size in enumerate(sizes, 1))
    return head + b"".join(b"\x2d" + struct.pack("<f", value) for value in array.reshape(-1))


def double_blob(array: np.ndarray) -> bytes:
    """Return a BlobProto with packed doubles."""
    return field(7, field(1, b"".join(map(varint, array.shape)))) + field(
        8, np.asarray(array, "<f8").tobytes()
    )


def caffemodel(weights: Mapping[str, Arrays], version: int = 2, one: Callable[..., bytes] = blob) -> bytes:
    """Return a NetParameter with weights, as Caffe's versions 0, 1 or 2 write it."""
    layers = []
    for name, arrays in weights.items():
        blobs = [one(np.asarray(array)) for array in arrays]
        if version == 2:
            layers.append(field(100, field(1, name) + b"".join(field(7, each) for each in blobs)))
        elif version == 1:
            layers.append(field(2, field(4, name) + b"".join(field(6, each) for each in blobs)))
        else:
            inner = field(1, name) + b"".join(field(50, each) for each in blobs)
            layers.append(field(2, field(1, inner)))
    return field(1, "net") + b"".join(layers)


def data(*shape: int, name: str = "data") -> str:
    """Return the text of an Input layer."""
    dims = " ".join(f"dim: {size}" for size in shape)
    return f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {dims} }} }} }}\n'


def layer(type: str, params: str = "", bottom: str = "data", top: str = "y", name: str = "") -> str:
    """Return the text of a layer; bottoms and tops are separated by blanks."""
    ends = " ".join(
        [*(f'bottom: "{each}"' for each in bottom.split()), *(f'top: "{each}"' for each in top.split())]
    )
    return f'layer {{ name: "{name or top.split()[0]}" type: "{type}" {ends} {params} }}\n'


def write(
    folder: Path, text: str, weights: Mapping[str, Arrays] | bytes | None = None
) -> tuple[Path, dict[str, Any]]:
    """Write a net and its weights; return its path, and the options of its conversion."""
    net = folder / "net.prototxt"
    net.write_text(text)
    if weights is None:
        return net, {}
    stored = folder / "net.caffemodel"
    stored.write_bytes(weights if isinstance(weights, bytes) else caffemodel(weights))
    return net, {"weights": stored}


def convert(
    folder: Path, text: str, weights: Mapping[str, Arrays] | bytes | None = None, **options: Any
) -> xdlc.Model:
    """Return the model of a net."""
    net, files = write(folder, text, weights)
    return xdlc.convert(net, **files, **options)


def run(
    folder: Path, text: str, inputs: Mapping[str, Any], weights: Mapping[str, Arrays] | bytes | None = None
) -> dict[str, np.ndarray]:
    """Return what a net computes on the host, from the DLC that is made of it."""
    target = folder / "net.dlc"
    xdlc.save(convert(folder, text, weights), target)
    return xdlc.run(target, {name: np.asarray(array, np.float32) for name, array in inputs.items()})
