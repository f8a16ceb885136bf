"""How far a quantized model is from its float model: ours beside onnxruntime's static quantizer.

    python bench/quant_sqnr.py resnet50.onnx mobilenetv2.onnx

Both quantizers get the same float model and the same calibration samples: standard normal, seeded.
onnxruntime's gets the model through its own pre-processing, as its documentation advises.
SQNR is 10 log10(sum of squares of the float output / sum of squares of the error) in dB over all
evaluation samples, averaged over outputs.  Ours is executed from the DLC as read back from disk.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

import xdlc
from xdlc.runtime import CpuSession

Feeds = dict[str, Any]


class Samples(CalibrationDataReader):
    """Seeded random inputs of a float model."""

    def __init__(self, session: ort.InferenceSession, count: int, seed: int) -> None:
        for value in session.get_inputs():
            if value.type != "tensor(float)" or not all(isinstance(extent, int) for extent in value.shape):
                sys.exit(f"input {value.name!r} is {value.type} {value.shape}: fixed float shapes are needed")
        self._shapes = {value.name: value.shape for value in session.get_inputs()}
        self._count, self._seed = count, seed
        self._left = iter(self)

    def __iter__(self) -> Iterator[Feeds]:
        rng = np.random.default_rng(self._seed)
        for _ in range(self._count):
            yield {
                name: rng.standard_normal(shape).astype(np.float32) for name, shape in self._shapes.items()
            }

    def get_next(self) -> Feeds | None:
        return next(self._left, None)


def open_session(path: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.x64quantprecision", "1")
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def sqnr(reference: list[Feeds], results: list[Feeds]) -> float:
    """Return the mean over outputs of the pooled signal to quantization noise ratio in dB."""
    ratios = []
    for name in reference[0]:
        signal = sum(float(np.square(r[name], dtype=np.float64).sum()) for r in reference)
        pairs = zip(reference, results, strict=True)
        noise = sum(float(np.square(r[name].astype(np.float64) - q[name]).sum()) for r, q in pairs)
        ratios.append(10 * np.log10(signal / noise) if noise else np.inf)
    return float(np.mean(ratios))


def run_onnx(session: ort.InferenceSession, samples: Samples) -> list[Feeds]:
    names = [value.name for value in session.get_outputs()]
    return [dict(zip(names, session.run(names, feeds), strict=True)) for feeds in samples]


def ours(model: Path, calibration: Samples, evaluation: Samples, scratch: Path, bits: dict[str, int]) -> Any:
    path = scratch / "quantized.dlc"
    start = time.perf_counter()
    xdlc.quantize(xdlc.convert(model), calibration, **bits).save(path)
    seconds = time.perf_counter() - start
    session = CpuSession(xdlc.load(path).main)
    return [session.run(feeds) for feeds in evaluation], seconds


def peer(model: Path, calibration: Samples, evaluation: Samples, scratch: Path, bits: dict[str, int]) -> Any:
    folded, path = scratch / "folded.onnx", scratch / "quantized.onnx"
    start = time.perf_counter()
    quant_pre_process(str(model), str(folded), skip_symbolic_shape=True)
    quantize_static(
        str(folded),
        str(path),
        calibration,
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8 if bits["act_bitwidth"] == 8 else QuantType.QUInt16,
        weight_type=QuantType.QInt8,
    )
    seconds = time.perf_counter() - start
    return run_onnx(open_session(path), evaluation), seconds


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--calibration", type=int, default=32, help="calibration samples (default: 32)")
    parser.add_argument("--evaluation", type=int, default=16, help="evaluation samples (default: 16)")
    parser.add_argument("--act_bitwidth", type=int, choices=(8, 16), default=8)
    given = parser.parse_args()
    logging.disable(logging.WARNING)  # the peer warns about every layer that it leaves alone
    bits = {"weights_bitwidth": 8, "act_bitwidth": given.act_bitwidth}
    print(f"{'model':32}{'tool':14}{'SQNR dB':>9}{'seconds':>9}")
    for model in given.models:
        session = open_session(model)
        evaluation = Samples(session, given.evaluation, seed=2)
        reference = run_onnx(session, evaluation)
        for name, tool in (("xdlc", ours), ("onnxruntime", peer)):
            with tempfile.TemporaryDirectory() as scratch:
                calibration = Samples(session, given.calibration, seed=1)
                results, seconds = tool(model, calibration, evaluation, Path(scratch), bits)
            print(f"{model.name:32}{name:14}{sqnr(reference, results):>9.2f}{seconds:>9.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
