"""Weights with scales per block on HTP's emulation and the host.

    python bench/lpbq.py [--socs sm8450 sm8550 ...] [--ops MatMul Conv2d ...] [--plain] [--repeats 5]

Each shape is a product with 4-bit weights in blocks, with activations of 16 and of 8 bits.  Blocks have
integer scales ("LPBQ") or, with --plain, real ones.  Several products are in one graph, which is prepared for
each SoC and run from its cache; the figure of a shape is the SQNR of its output against the host.  A graph
that fails is taken apart, so that the shape at fault is named.  Shapes below 60 dB at 16 bits, or 40 dB at
8 bits, where one step is 40 to 50 dB, are failures.  A shape that quantizing or preparing refuses by a
constraint is no failure.

MatMul and FullyConnected both become FullyConnected in a DLC; BatchMatMul has two matrices of weights.
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
from xdlc.errors import ConstraintError, UsageError, each_problem

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
OPS = ("MatMul", "FullyConnected", "Conv2d", "BatchMatMul")
REFUSED = "refused"


def network(shapes: Sequence[Shape], op: str, path: Path) -> tuple[xdlc.Model, list[dict[str, np.ndarray]]]:
    """Return a network with one product a shape, side by side, and samples."""
    rng = np.random.default_rng(0)
    nodes, constants = [], []
    inputs: list[onnx.ValueInfoProto] = []
    outputs: list[onnx.ValueInfoProto] = []
    for index, (features, units, tokens, _) in enumerate(shapes):
        weight = rng.standard_normal((features, units), np.float32) / np.float32(np.sqrt(features))
        bias = rng.standard_normal(units, np.float32)
        kernel = {
            "Conv2d": np.ascontiguousarray(weight.T)[:, :, None, None],
            "BatchMatMul": np.stack([weight, -weight]),
        }.get(op, weight)
        constants += [
            numpy_helper.from_array(kernel, f"w{index}"),
            numpy_helper.from_array(bias, f"b{index}"),
        ]
        operands = [f"x{index}", f"w{index}"]
        if op.endswith("MatMul"):
            nodes.append(helper.make_node("MatMul", operands, [f"m{index}"]))
            nodes.append(helper.make_node("Add", [f"m{index}", f"b{index}"], [f"y{index}"]))
        else:
            kind = "Conv" if op == "Conv2d" else "Gemm"
            nodes.append(helper.make_node(kind, [*operands, f"b{index}"], [f"y{index}"]))
        for values, name, size in ((inputs, "x", features), (outputs, "y", units)):
            shape = _extent(op, tokens, size)
            values.append(helper.make_tensor_value_info(f"{name}{index}", onnx.TensorProto.FLOAT, shape))
    graph = helper.make_graph(nodes, "products", inputs, outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    samples = [
        {
            f"x{i}": rng.standard_normal(_extent(op, tokens, size), np.float32)
            for i, (size, _, tokens, _) in enumerate(shapes)
        }
        for _ in range(2)
    ]
    return xdlc.convert(path), samples


def _extent(op: str, tokens: int, size: int) -> tuple[int, ...]:
    """Return the shape of an input or output of so many channels."""
    if op == "FullyConnected":
        return tokens, size
    return (1, size, 1, tokens) if op == "Conv2d" else (2 if op == "BatchMatMul" else 1, tokens, size)


def figures(
    shapes: Sequence[Shape], op: str, bits: int, soc: str, repeats: int, *, is_plain: bool
) -> dict[Shape, list[float | str]]:
    """Return the SQNR of each shape, in dB, for each preparation, or its failure."""
    with tempfile.TemporaryDirectory() as folder:
        model, samples = network(shapes, op, Path(folder) / "m.onnx")
    losses: dict[Shape, list[float | str]] = {shape: [] for shape in shapes}
    targets = {soc if bits == 16 else None, None if is_plain else soc}
    for target in targets:  # plain blocks: the verdict of quantizing, then that of preparing
        try:
            quantized = xdlc.quantize(
                model,
                samples,
                act_bitwidth=bits,
                weights_bitwidth=4,
                use_lpbq=not is_plain,
                weights_block_size=shapes[0][3],
                notify=lambda _: None,
                target=target,
            )
        except xdlc.XdlcError as error:
            for shape in shapes:
                losses[shape].append(_verdict(error))
            continue
        _measure(quantized, samples[0], soc, repeats, losses)
    if len(shapes) > 1 and any(isinstance(each, str) for values in losses.values() for each in values):
        apart: dict[Shape, list[float | str]] = {}
        for shape in shapes:
            apart |= figures([shape], op, bits, soc, repeats, is_plain=is_plain)
        return apart
    return losses


def _verdict(error: xdlc.XdlcError) -> str:
    """Return in words how a shape failed: by a constraint, or otherwise."""
    is_refusal = all(isinstance(each, ConstraintError | UsageError) for each in each_problem(error))
    return REFUSED if is_refusal else error.problem[:100]


def _measure(
    quantized: xdlc.Model,
    sample: dict[str, np.ndarray],
    soc: str,
    repeats: int,
    losses: dict[Shape, list[float | str]],
) -> None:
    """Append the SQNR of each shape, for each preparation, or the failure of all."""
    expected = xdlc.run(quantized, sample)
    for _ in range(repeats):
        try:
            prepared = xdlc.prepare(quantized, [soc])
            results = xdlc.run(prepared, sample, runtime="htp", soc=soc)
        except xdlc.XdlcError as error:
            for values in losses.values():
                values.append(_verdict(error))
            continue
        for index, values in enumerate(losses.values()):
            wide, ours = (np.asarray(each[f"y{index}"], np.float64) for each in (expected, results))
            values.append(float(10 * np.log10((wide**2).sum() / (((wide - ours) ** 2).sum() or 1e-30))))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--socs", nargs="+", default=["sm8450", "sm8550", "sm8650", "sm8750"])
    parser.add_argument(
        "--repeats", type=int, default=1, help="times that each graph is prepared (default: 1)"
    )
    parser.add_argument("--per_graph", type=int, default=4, help="shapes in a graph (default: 4)")
    parser.add_argument("--ops", nargs="+", choices=OPS, default=["MatMul"])
    parser.add_argument("--bits", nargs="+", type=int, choices=LEAST, default=list(LEAST))
    parser.add_argument("--plain", action="store_true", help="real scales of blocks in place of integer ones")
    options = parser.parse_args()
    failures = 0
    for bits, op, soc in product(options.bits, options.ops, options.socs):
        title, lowest, right, refused = f"{op} W4A{bits} {soc}", np.inf, 0, 0
        for size in sorted({shape[3] for shape in SHAPES}):
            same = [shape for shape in SHAPES if shape[3] == size]
            for start in range(0, len(same), options.per_graph):
                shapes = same[start : start + options.per_graph]
                losses = figures(shapes, op, bits, soc, options.repeats, is_plain=options.plain)
                for shape, values in losses.items():
                    is_refused = all(each == REFUSED for each in values)
                    is_right = all(isinstance(each, float) and each >= LEAST[bits] for each in values)
                    right, refused = right + is_right, refused + is_refused
                    lowest = min([lowest, *(each for each in values if isinstance(each, float))])
                    if not is_right and not is_refused:
                        failures += 1
                        print(f"{title} {shape}: {values}", flush=True)
        least = f", lowest {lowest:.1f} dB" if right else ""
        print(f"{title}: {right} of {len(SHAPES)} right, {refused} refused{least}", flush=True)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
