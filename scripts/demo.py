"""A tour on a trained network: convert, quantize, prepare for HTP, look inside, run, compare.

Writes to .demo/ below the current folder.  Every step prints its command.  The network reads handwritten
digits that were drawn into images of 32 x 32; ``scripts/train_demo.py`` trained it.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(".demo")
DATA = Path(__file__).parent / "data" / "demo.npz"
SIZE = 32
CLASSES = 10
STEM = 16
PLAN = ((16, 16, 1), (16, 24, 2), (24, 24, 1), (24, 32, 2), (32, 32, 1), (32, 48, 2))
"""Channels in, channels out, and stride of each block."""
WIDER = 4
HEADS = (96, 192)
SOCS = ("sm8550", "sm8650")
CALIBRATION = 120
EVALUATION = 240
SHOWN = 6
"""Lines of each tool that are printed."""
METRIC = '''"""Metric for --evaluate metric.py:accuracy: the share of digits that a network reads right."""

from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "evaluation"


def accuracy(run):
    labels = np.loadtxt(FOLDER / "labels.txt", int)
    right = 0
    for number, label in enumerate(labels):
        image = np.fromfile(FOLDER / f"{number:03d}.raw", "<f4").reshape(1, 3, 32, 32)
        right += run({"image": image})["scores"].argmax() == label
    return right / len(labels)
'''


class Network:
    """Collects the nodes of a MobileNet-like classifier with trained weights."""

    def __init__(self, weights: Mapping[str, Any]) -> None:
        self.trained = weights
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, name: str) -> str:
        """Add a trained weight and return its name."""
        self.weights.append(numpy_helper.from_array(self.trained[name].astype(np.float32), name))
        return name

    def node(self, op: str, inputs: list[str], name: str, **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        self.nodes.append(helper.make_node(op, inputs, [f"{name}_out"], name, **attributes))
        return f"{name}_out"

    def conv(self, x: str, name: str, k: int, stride: int = 1, group: int = 1) -> str:
        """Add Conv and BatchNormalization."""
        kernel, pads = self.weight(f"{name}.weight"), [k // 2] * 4
        x = self.node(
            "Conv", [x, kernel], name, kernel_shape=[k, k], strides=[stride] * 2, pads=pads, group=group
        )
        names = [self.weight(f"{name}.bn.{key}") for key in ("gamma", "beta", "mean", "variance")]
        return self.node("BatchNormalization", [x, *names], f"{name}_bn")

    def block(self, x: str, name: str, cin: int, cout: int, stride: int) -> str:
        """Add an inverted residual: expand, depthwise, project, and the sum where shapes allow."""
        y = self.node("Relu", [self.conv(x, f"{name}.expand", 1)], f"{name}.relu1")
        y = self.conv(y, f"{name}.depthwise", 3, stride, WIDER * cin)
        y = self.node("Relu", [y], f"{name}.relu2")
        y = self.conv(y, f"{name}.project", 1)
        return self.node("Add", [x, y], f"{name}.add") if stride == 1 and cin == cout else y


def build(path: Path, weights: Mapping[str, Any]) -> None:
    """Write the network: 21 convolutions."""
    net = Network(weights)
    x = net.node("Relu", [net.conv("image", "stem", 3, 2)], "stem.relu")
    for number, (cin, cout, stride) in enumerate(PLAN, 1):
        x = net.block(x, f"block{number}", cin, cout, stride)
    for number in range(1, len(HEADS) + 1):
        x = net.node("Relu", [net.conv(x, f"head{number}", 1)], f"head{number}.relu")
    x = net.node("Flatten", [net.node("GlobalAveragePool", [x], "pool")], "flatten")
    kernel, bias = net.weight("classifier.weight"), net.weight("classifier.bias")
    net.nodes.append(helper.make_node("Gemm", [x, kernel, bias], ["scores"], "classifier", transB=1))
    graph = helper.make_graph(
        net.nodes,
        "demo",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIZE, SIZE])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, CLASSES])],
        net.weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def draw(digits: Any, rng: np.random.Generator) -> Any:
    """Return images, [N, 3, SIZE, SIZE], of coloured digits somewhere on a coloured ground."""
    count, side = len(digits), digits.shape[1]
    large = 3 * side
    places = np.clip((np.arange(large) + 0.5) / 3 - 0.5, 0, side - 1)
    spread = np.maximum(1 - np.abs(places[:, None] - np.arange(side)), 0)  # of each row: linear interpolation
    shapes = np.zeros((count, SIZE, SIZE))
    for shape, digit, (top, left) in zip(
        shapes, digits / 16, rng.integers(0, SIZE - large + 1, (count, 2)), strict=True
    ):
        shape[top : top + large, left : left + large] = spread @ digit @ spread.T
    ground = rng.uniform(-2, 0.5, (count, 3, 1, 1))
    slope = rng.uniform(-1, 1, (count, 3, 1, 1)) * np.linspace(-0.5, 0.5, SIZE)
    ink = rng.uniform(0.8, 2, (count, 3, 1, 1))
    noise = 0.15 * rng.standard_normal((count, 3, SIZE, SIZE))
    images = ground + slope + shapes[:, None] * (ink - ground) + noise
    return images.clip(-2.5, 2.5).astype(np.float32)


def write_images(folder: Path, digits: Any, labels: Any, seed: int) -> None:
    """Write images of digits as raw files, with the list that names them and a file of labels."""
    folder.mkdir(exist_ok=True)
    lines = []
    for number, image in enumerate(draw(digits, np.random.default_rng(seed))):
        path = folder / f"{number:03d}.raw"
        path.write_bytes(image.astype("<f4").tobytes())
        lines.append(f"{folder.name}/{path.name}\n")
    (folder / "list.txt").write_text("".join(lines))
    (folder / "labels.txt").write_text("".join(f"{label}\n" for label in labels))


def write_inputs(folder: Path) -> None:
    """Write what a user brings: the network, images to calibrate and to evaluate with, and a metric."""
    folder.mkdir(exist_ok=True)
    data = np.load(DATA)
    build(folder / "demo.onnx", data)
    digits, labels = data["digits"], data["labels"]
    write_images(folder / "evaluation", digits[:EVALUATION], labels[:EVALUATION], seed=3)
    write_images(folder / "calibration", digits[EVALUATION:], labels[EVALUATION:], seed=2)
    (folder / "metric.py").write_text(METRIC)


def step(command: str) -> None:
    """Print and run a command of this environment in the demo's folder; show how its output begins."""
    print(f"\n$ {command}", flush=True)
    tool, *words = command.split()
    path = Path(sys.executable).with_name(tool).absolute()
    done = subprocess.run([str(path), *words], cwd=FOLDER, check=False, stdout=subprocess.PIPE, text=True)
    lines = done.stdout.splitlines()
    if len(lines) > SHOWN + 2:
        lines = [*lines[:SHOWN], "...", lines[-1]]
    print(*(f"  {line}" for line in lines), sep="\n", flush=True)
    if done.returncode:
        sys.exit(done.returncode)


def results(name: str) -> Any:
    """Return the outputs that xdlc net-run left, one row per inference."""
    rows = [np.fromfile(FOLDER / name / f"Result_{n}" / "scores.raw", "<f4") for n in range(EVALUATION)]
    return np.stack(rows).astype(np.float64)


def source_results() -> Any:
    """Return the outputs of the ONNX model in onnxruntime, one row per inference."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    session = onnxruntime.InferenceSession(str(FOLDER / "demo.onnx"), providers=["CPUExecutionProvider"])
    names = (FOLDER / "evaluation" / "list.txt").read_text().split()
    images = [np.fromfile(FOLDER / name, "<f4").reshape(1, 3, SIZE, SIZE) for name in names]
    return np.concatenate([session.run(None, {"image": image})[0] for image in images]).astype(np.float64)


def summarize(names: Mapping[str, str]) -> None:
    """Print a line for each run: what it reads right, and how far it is from the source model."""
    source, labels = source_results(), np.loadtxt(FOLDER / "evaluation" / "labels.txt", int)
    print(f"\n{EVALUATION} digits that the network was not trained on      right   as source   SQNR")
    right = np.mean(source.argmax(1) == labels)
    print(f"  {'demo.onnx in onnxruntime':<50}{right:>8.1%}")
    for name, title in names.items():
        scores = results(name)
        noise = np.square(source - scores).sum() / np.square(source).sum()
        right, same = np.mean(scores.argmax(1) == labels), np.mean(scores.argmax(1) == source.argmax(1))
        print(f"  {title:<50}{right:>8.1%}{same:>10.1%}{-10 * np.log10(noise):>8.1f} dB")


def main() -> int:
    """Run the tour."""
    vendor = importlib.util.find_spec("onnxruntime_qnn") is not None
    print(f"writing {FOLDER}/demo.onnx, images of digits, and metric.py\n\n$ cd {FOLDER}")
    write_inputs(FOLDER)
    step("xdlc convert -i demo.onnx -o demo.dlc")
    step("xdlc quant -i demo.dlc -l calibration/list.txt -o demo_quantized.dlc")
    runs = {"float": ("demo.dlc", "float DLC", ""), "quantized": ("demo_quantized.dlc", "quantized DLC", "")}
    if vendor:
        prepare = "xdlc graph-prepare --input_dlc demo_quantized.dlc --output_dlc demo_cached.dlc --htp_socs"
        step(f"{prepare} {','.join(SOCS)}")
        step("xdlc info --brief demo_cached.dlc")
        options = f"--runtime htp --soc {SOCS[-1]}"
        runs["htp"] = "demo_cached.dlc", f"HTP of {SOCS[-1]}, emulated", options
    for name, (dlc, _, options) in runs.items():
        command = f"xdlc net-run --container {dlc} --input_list evaluation/list.txt --output_dir {name}"
        step(f"{command} {options}".rstrip())
    summarize({name: title for name, (_, title, _) in runs.items()})
    if not vendor:
        print("HTP was omitted: the vendor's package is missing (pip install 'xdlc[htp]')")
    return 0


if __name__ == "__main__":
    sys.exit(main())
