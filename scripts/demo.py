"""A tour on a network built here: convert, quantize, prepare for HTP and HTA, look inside, run, compare.

Writes to .demo/ below the current folder.  Every step prints the command that does the same by hand.
"""

from __future__ import annotations

import importlib.util
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FOLDER = Path(".demo")
SIZE = 96
CLASSES = 100
SOCS = ("sm8550", "sm8650")
CALIBRATION = 16
EVALUATION = 4


class Network:
    """Collects the nodes of a MobileNet-like classifier with seeded weights."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, name: str, array: Any) -> str:
        """Add a weight and return its name."""
        self.weights.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def node(self, op: str, inputs: list[str], name: str, **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        self.nodes.append(helper.make_node(op, inputs, [f"{name}_out"], name, **attributes))
        return f"{name}_out"

    def conv(self, x: str, name: str, cin: int, cout: int, k: int, stride: int = 1, group: int = 1) -> str:
        """Add Conv and BatchNormalization."""
        scale = np.sqrt(2 / (cin // group * k * k))
        kernel = self.weight(f"{name}.weight", self.rng.standard_normal((cout, cin // group, k, k)) * scale)
        pads = [k // 2] * 4
        x = self.node(
            "Conv", [x, kernel], name, kernel_shape=[k, k], strides=[stride] * 2, pads=pads, group=group
        )
        statistics = {
            "gamma": self.rng.uniform(0.9, 1.1, cout),
            "beta": self.rng.uniform(-0.2, 0.2, cout),
            "mean": self.rng.uniform(-0.1, 0.1, cout),
            "variance": self.rng.uniform(0.8, 1.2, cout),
        }
        names = [self.weight(f"{name}.bn.{key}", values) for key, values in statistics.items()]
        return self.node("BatchNormalization", [x, *names], f"{name}_bn")

    def block(self, x: str, name: str, cin: int, cout: int, stride: int) -> str:
        """Add an inverted residual: expand, depthwise, project, and the sum where shapes allow."""
        inner = 4 * cin
        y = self.node("Relu", [self.conv(x, f"{name}.expand", cin, inner, 1)], f"{name}.relu1")
        y = self.conv(y, f"{name}.depthwise", inner, inner, 3, stride, inner)
        y = self.node("Relu", [y], f"{name}.relu2")
        y = self.conv(y, f"{name}.project", inner, cout, 1)
        return self.node("Add", [x, y], f"{name}.add") if stride == 1 and cin == cout else y


def build(path: Path) -> None:
    """Write the network: 21 convolutions."""
    net = Network(seed=1)
    x = net.node("Relu", [net.conv("image", "stem", 3, 16, 3, 2)], "stem.relu")
    plan = ((16, 16, 1), (16, 24, 2), (24, 24, 1), (24, 32, 2), (32, 32, 1), (32, 48, 2))
    for number, (cin, cout, stride) in enumerate(plan, 1):
        x = net.block(x, f"block{number}", cin, cout, stride)
    x = net.node("Relu", [net.conv(x, "head1", 48, 96, 1)], "head1.relu")
    x = net.node("Relu", [net.conv(x, "head2", 96, 192, 1)], "head2.relu")
    x = net.node("Flatten", [net.node("GlobalAveragePool", [x], "pool")], "flatten")
    kernel = net.weight("classifier.weight", net.rng.standard_normal((CLASSES, 192)) * np.sqrt(1 / 192))
    bias = net.weight("classifier.bias", np.zeros(CLASSES))
    net.nodes.append(helper.make_node("Gemm", [x, kernel, bias], ["scores"], "classifier", transB=1))
    graph = helper.make_graph(
        net.nodes,
        "demo",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, SIZE, SIZE])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, CLASSES])],
        net.weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def write_images(folder: Path, count: int, seed: int) -> Path:
    """Write smooth random images as raw files and return the input list that names them."""
    rng = np.random.default_rng(seed)
    folder.mkdir(exist_ok=True)
    lines = []
    for number in range(count):
        coarse = rng.standard_normal((1, 3, SIZE // 8, SIZE // 8)).repeat(8, 2).repeat(8, 3)
        image = coarse + 0.3 * rng.standard_normal((1, 3, SIZE, SIZE))
        path = folder / f"{number}.raw"
        path.write_bytes(image.astype("<f4").tobytes())
        lines.append(str(path))
    listing = folder / "list.txt"
    listing.write_text("\n".join(lines) + "\n")
    return listing


def step(title: str, *words: object) -> None:
    """Print and run a command of this environment."""
    tool, *rest = map(str, words)
    print(f"\n== {title}\n$ {shlex.join([tool, *rest])}", flush=True)
    code = subprocess.run([str(Path(sys.executable).with_name(tool)), *rest], check=False).returncode
    if code:
        sys.exit(code)


def results(folder: Path) -> Any:
    """Return the outputs that xdlc-net-run left, one row per inference."""
    return np.stack(
        [np.fromfile(folder / f"Result_{n}" / "scores.raw", "<f4") for n in range(EVALUATION)]
    ).astype(np.float64)


def distance(title: str, reference: Any, found: Any, scale: float | None = None) -> None:
    """Print how far two results differ."""
    noise, signal = np.linalg.norm(reference - found), np.linalg.norm(reference)
    relative = noise / signal
    sqnr = f"{-20 * np.log10(relative):6.1f} dB" if noise else "     equal"
    line = f"  {title:<46}relative L2 {relative:.2e}   SQNR {sqnr}"
    if scale is not None:
        steps = np.rint(np.abs(reference - found) / scale)
        line += f"   at most {int(steps.max())} steps, {np.mean(steps <= 2):.1%} within 2"
    print(line)


def main() -> int:
    """Run the tour."""
    FOLDER.mkdir(exist_ok=True)
    model, dlc = FOLDER / "demo.onnx", FOLDER / "demo.dlc"
    quantized, cached = FOLDER / "demo_quantized.dlc", FOLDER / "demo_cached.dlc"
    sections = FOLDER / "demo_hta.dlc"
    print(f"building {model}")
    build(model)
    calibration = write_images(FOLDER / "calibration", CALIBRATION, seed=2)
    evaluation = write_images(FOLDER / "evaluation", EVALUATION, seed=3)
    vendor = importlib.util.find_spec("onnxruntime_qnn") is not None

    step("convert", "xconv-onnx-to-dlc", "-i", model, "-o", dlc)
    step(
        "quantize",
        "xdlc-quant",
        "--input_dlc", dlc, "--input_list", calibration, "--output_dlc", quantized,
    )  # fmt: skip
    if vendor:
        step(
            "prepare",
            "xdlc-graph-prepare",
            "--input_dlc", quantized, "--output_dlc", cached, "--htp_socs", ",".join(SOCS),
        )  # fmt: skip
    else:
        print("\n== prepare: left out, the vendor's package is not installed (pip install 'xdlc[htp]')")
    step(
        "sections for HTA",
        "xdlc-quantize",
        "--input_dlc", quantized, "--output_dlc", sections, "--enable_hta",
    )  # fmt: skip
    step("look inside", "xdlc-info", "--brief", sections)
    if vendor:
        step("where do the caches run", "xdlc-info", "--caches", cached, "--device", "sm8650,sm8450")

    runs = [("float", dlc, []), ("quantized", quantized, []), ("hta", sections, ["--use_aip"])]
    runs += [(f"htp_{soc}", cached, ["--runtime", "htp", "--soc", soc]) for soc in SOCS if vendor]
    for name, container, options in runs:
        step(
            f"run: {name}",
            "xdlc-net-run",
            "--container", container, "--input_list", evaluation, "--output_dir", FOLDER / name, *options,
        )  # fmt: skip
    compare(model, evaluation, quantized, [name for name, _, _ in runs[3:]])
    return 0


def compare(model: Path, evaluation: Path, quantized: Path, emulated: list[str]) -> None:
    """Print how far the runs differ from the source model and from each other."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import onnxruntime

    import xdlc
    from xdlc.ir import ScaleOffset

    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    images = [np.fromfile(line, "<f4") for line in evaluation.read_text().split()]
    source = np.concatenate([session.run(None, {"image": i.reshape(1, 3, SIZE, SIZE)})[0] for i in images])
    encoding = xdlc.load(quantized).main.outputs[0].encoding
    assert isinstance(encoding, ScaleOffset)
    scale = encoding.scale
    plain, ours = results(FOLDER / "float"), results(FOLDER / "quantized")
    print("\n== how far they differ")
    distance("float DLC from the ONNX model", source, plain)
    distance("quantized from float", plain, ours)
    distance("HTA sections from quantized", ours, results(FOLDER / "hta"), scale)
    for name in emulated:
        distance(f"HTP emulation ({name[4:]}) from quantized", ours, results(FOLDER / name), scale)
    if not emulated:
        print("  HTP emulation: left out, the vendor's package is not installed")


if __name__ == "__main__":
    sys.exit(main())
