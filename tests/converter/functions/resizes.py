"""One image, resized by small models of all frameworks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import xdlc
from tests.converter.keras.keras_files import archive, entry, layer, sequential
from tests.converter.pytorch.programs import results
from tests.converter.tensorflow.tf_models import Graph, evaluate
from tests.converter.tflite.flexbuffer_writer import flexbuffer
from tests.converter.tflite.models import TinyModel
from tests.support.onnx_models import build, node

IMAGE = np.random.default_rng(0).standard_normal((1, 4, 6, 1)).astype(np.float32)
FIRST = IMAGE.transpose(0, 3, 1, 2)
SIZE = (7, 9)


def onnx(folder: Path, mode: str, transform: str, **attributes: Any) -> np.ndarray:
    attributes |= {"mode": mode, "coordinate_transformation_mode": transform}
    nodes = [node("Resize", "x - - sizes", **attributes)]
    model = xdlc.convert(build(nodes, {"x": FIRST}, {"sizes": np.array([1, 1, *SIZE])}, ["y"], 19))
    return xdlc.run(model, {"x": FIRST})["y"].transpose(0, 2, 3, 1)


def tensorflow(folder: Path, type: str, **flags: bool) -> np.ndarray:
    return evaluate(type, IMAGE, np.int32(SIZE), constant=(1,), **flags)


def tflite(folder: Path, type: str, **flags: bool) -> np.ndarray:
    """Resize by an operator of TensorFlow Lite, or by one of TensorFlow within."""
    builder = TinyModel()
    x, y = builder.tensor("x", [*IMAGE.shape]), builder.tensor("y", [1, *SIZE, 1])
    operands = [x, builder.tensor("s", dtype=np.int32, data=[*SIZE])]
    if type.isupper():
        builder.op(type, operands, [y], **flags)
    else:
        inner = Graph().node(type, "n", ["x", "s"], **flags).proto.node[0].SerializeToString()
        builder.op(f"Flex{type}", operands, [y], custom_options=flexbuffer([type, inner]))
    return xdlc.run(xdlc.convert(builder.write(folder / "m.tflite", [x], [y])), {"x": IMAGE})["y"]


def keras(folder: Path, interpolation: str) -> np.ndarray:
    resizing = layer("Resizing", "r", height=SIZE[0], width=SIZE[1], interpolation=interpolation)
    path = archive(folder / "m.keras", sequential(entry("x", None, *IMAGE.shape[1:]), resizing), {})
    model = xdlc.convert(path, batch=1, notify=lambda _: None)
    (result,) = xdlc.run(model, {model.main.inputs[0].name: IMAGE}).values()
    return result


def pytorch(folder: Path, name: str, *align: bool) -> np.ndarray:
    like = np.zeros((1, 1, *SIZE), np.float32)
    return results(folder, name, FIRST, list(SIZE), *align, like=like).transpose(0, 2, 3, 1)
