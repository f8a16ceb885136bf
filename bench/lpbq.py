"""Weights with blockwise expansion ("LPBQ") on HTP's emulation and the host.

    python bench/lpbq.py [--socs sm8450 sm8550 ...] [--repeats 5] [--per_graph 4]

Each shape is a MatMul with a bias, quantized to 4-bit weights in blocks with activations of 16 and of 8 bits.
Several are in one graph, which is prepared for each SoC and run from its cache; the figure of a shape is the
SQNR of its output against the host.  A graph that fails is taken apart, so that the shape at fault is named.
Shapes below 60 dB at 16 bits, or 40 dB at 8 bits, where one step is 40 to 50 dB, are failures.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

import xdlc

Shape = tuple[int, int, int, int]
"""Channels in and out, tokens, channels of a block."""
SHAPES: list[Shape] = [
    *((192, 257, tokens, block) for tokens, block in product((1, 32), (16, 32, 64))),
    *((192, 576, tokens, block) for tokens, block in product((1, 32), (16, 32, 64))),
    *((768, 192, tokens, block) for tokens, block in product((1, 32), (16, 32, 64))),
    *((512, 2048, tokens, block) for tokens, block in product((1, 32), (16, 32, 64))),
    *((128, 160, tokens, block) for tokens, block in product((1, 32), (16, 32, 64))),
    *((64, 64, 1, 16), (64, 2048, 32, 32), (96, 100, 5, 32), (192, 256, 32, 32), (256, 768, 1, 64)),
    *((320, 576, 32, 64), (448, 64, 1, 64), (576, 1000, 7, 64), (1024, 1024, 32, 128), (2048, 2048, 1, 32)),
    *((2048, 512, 1, 64), (144, 96, 1, 48), (192, 320, 32, 24)),
]
LEAST = {16: 60.0, 8: 40.0}


def network(shapes: Sequence[Shape], path: Path) -> tuple[xdlc.Model, list[dict[str, np.ndarray]]]:
    """Return a network with one product a shape, side by side, and samples."""
    rng = np.random.default_rng(0)
    nodes, constants = [], []
    inputs: list[onnx.ValueInfoProto] = []
    outputs: list[onnx.ValueInfoProto] = []
    for index, (features, units, tokens, _) in enumerate(shapes):
        nodes.append(helper.make_node("MatMul", [f"x{index}", f"w{index}"], [f"m{index}"]))
        nodes.append(helper.make_node("Add", [f"m{index}", f"b{index}"], [f"y{index}"]))
        weight = rng.standard_normal((features, units), np.float32) / np.float32(np.sqrt(features))
        constants.append(numpy_helper.from_array(weight, f"w{index}"))
        constants.append(numpy_helper.from_array(rng.standard_normal(units, np.float32), f"b{index}"))
        for values, name, size in ((inputs, "x", features), (outputs, "y", units)):
            shape = (1, tokens, size)
            values.append(helper.make_tensor_value_info(f"{name}{index}", onnx.TensorProto.FLOAT, shape))
    graph = helper.make_graph(nodes, "products", inputs, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    samples = [
        {
            f"x{i}": rng.standard_normal((1, tokens, size), np.float32)
            for i, (size, _, tokens, _) in enumerate(shapes)
        }
        for _ in range(2)
    ]
    return xdlc.convert(path), samples


def figures(shapes: Sequence[Shape], bits: int, soc: str, repeats: int) -> dict[Shape, list[float | str]]:
    """Return the SQNR of each shape, in dB, for each preparation, or its failure."""
    with tempfile.TemporaryDirectory() as folder:
        model, samples = network(shapes, Path(folder) / "m.onnx")
    quantized = xdlc.quantize(
        model,
        samples,
        act_bitwidth=bits,
        weights_bitwidth=4,
        use_lpbq=True,
        weights_block_size=shapes[0][3],
        notify=lambda _: None,
        target=soc if bits == 16 else None,
    )
    expected = xdlc.run(quantized, samples[0])
    losses: dict[Shape, list[float | str]] = {shape: [] for shape in shapes}
    for _ in range(repeats):
        try:
            prepared = xdlc.prepare(quantized, [soc])
            results = xdlc.run(prepared, samples[0], runtime="htp", soc=soc)
        except xdlc.XdlcError as error:
            if len(shapes) > 1:
                return {shape: figures([shape], bits, soc, repeats)[shape] for shape in shapes}
            losses[shapes[0]].append(error.problem[:100])
            continue
        for index, shape in enumerate(shapes):
            wide, ours = (np.asarray(each[f"y{index}"], np.float64) for each in (expected, results))
            losses[shape].append(
                float(10 * np.log10((wide**2).sum() / (((wide - ours) ** 2).sum() or 1e-30)))
            )
    return losses


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--socs", nargs="+", default=["sm8450", "sm8550", "sm8650", "sm8750"])
    parser.add_argument(
        "--repeats", type=int, default=1, help="times that each graph is prepared (default: 1)"
    )
    parser.add_argument("--per_graph", type=int, default=4, help="shapes in a graph (default: 4)")
    options = parser.parse_args()
    failures = 0
    for bits, soc in product(LEAST, options.socs):
        lowest, count = np.inf, 0
        for size in sorted({shape[3] for shape in SHAPES}):
            same = [shape for shape in SHAPES if shape[3] == size]
            for start in range(0, len(same), options.per_graph):
                shapes = same[start : start + options.per_graph]
                for shape, values in figures(shapes, bits, soc, options.repeats).items():
                    is_right = all(isinstance(each, float) and each >= LEAST[bits] for each in values)
                    count, failures = count + is_right, failures + (not is_right)
                    lowest = min([lowest, *(each for each in values if isinstance(each, float))])
                    if not is_right:
                        print(f"W4A{bits} {soc} {shape}: {values}", flush=True)
        print(f"W4A{bits} {soc}: {count} of {len(SHAPES)} right, lowest {lowest:.1f} dB", flush=True)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
