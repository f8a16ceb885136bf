"""Write the small models that pages name, into the current folder.

    python -m tests.docs.models net.tflite net.keras

A page has it as a `setup` line, so that its commands run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx

from tests.converter.caffe import nets
from tests.converter.caffe2.nets import TinyNet
from tests.converter.keras.keras_files import archive, entry, layer, sequential
from tests.converter.pytorch.programs import TinyProgram
from tests.converter.tensorflow.tf_checkpoints import save, saved_model
from tests.converter.tensorflow.tf_models import FLOAT, Graph
from tests.converter.tflite.models import TinyModel

HEADER = '<ir_version: 8, opset_import: ["": 17]>'


def _onnx(name: str, text: str) -> None:
    onnx.save(onnx.parser.parse_model(f"{HEADER} {text}"), name)


def _tflite(name: str) -> None:
    model = TinyModel()
    x, y = (model.tensor(tensor, [1, 4, 4, 3]) for tensor in "xy")
    model.op("RELU", [x], [y])
    model.write(Path(name), [x], [y])


def _graph(*sizes: int | None) -> Graph:
    return Graph().input("x", *sizes).node("Relu", "y", ["x"], T=FLOAT)


def _keras(name: str) -> None:
    dense = layer("Dense", "d", None, units=3, activation="linear", use_bias=True)
    weights = [np.ones((4, 3), np.float32), np.ones(3, np.float32)]
    archive(Path(name), sequential(entry("x", None, 4), dense), {"layers/dense": weights})


def _caffe(name: str) -> None:
    text = nets.data(1, 3, 4, 4) + nets.layer(
        "Convolution", "convolution_param { num_output: 2 kernel_size: 1 }"
    )
    Path(name).write_text(text)
    weights = {"y": [np.ones((2, 3, 1, 1), np.float32), np.ones(2, np.float32)]}
    Path("net.caffemodel").write_bytes(nets.caffemodel(weights))


def _caffe2(name: str) -> None:
    net = TinyNet().op("Mul", ["data", "w"], ["y"])
    net.fill("w", np.float32([2]))
    for path, target in zip(net.write(Path()), (name, "init_net.pb"), strict=True):
        path.rename(target)


def _program(name: str) -> None:
    program = TinyProgram()
    program.op("relu", program.input("x", (1, 3, 8, 8)))
    program.write(Path()).rename(name)


WRITERS: dict[str, Callable[[str], object]] = {
    "det.onnx": lambda name: _onnx(
        name, "det (float[1,3,height,width] x) => (float[1,3,height,width] y) { y = Relu(x) }"
    ),
    "net.onnx": lambda name: _onnx(name, "net (float[batch,8] x) => (float[batch,8] y) { y = Relu(x) }"),
    "silero_vad.onnx": lambda name: _onnx(
        name, "vad (float[1,8] x, float sr) => (float[1,8] y) { y = Div(x, sr) }"
    ),
    "net.tflite": _tflite,
    "frozen.pb": lambda name: _graph(None, 224, 224, 3).save(Path(name)),
    "saved_model_folder": lambda name: save(
        saved_model(_graph(None, 3), {"x": "x:0"}, {"y": "y:0"}), Path(name)
    ),
    "net.keras": _keras,
    "deploy.prototxt": _caffe,
    "predict_net.pb": _caffe2,
    "model.pt2": _program,
}


def main() -> None:
    """Write the models that the command line names."""
    for name in sys.argv[1:]:
        WRITERS[name](name)


if __name__ == "__main__":
    main()
