"""Ways of a network through xdlc, each judged by the same engine."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

import xdlc
from fuzz.differential.frameworks import Framework, foreign
from fuzz.differential.judging import FLOAT16, FLOAT32, Difference, compare, spread
from fuzz.differential.networks import Array, Network
from xdlc import api, passes
from xdlc.errors import BackendError, ConstraintError, ModelError, UnsupportedOp, UsageError, XdlcError
from xdlc.opdefs import elementwise_enums as enums
from xdlc.runtime.htp.graph_io import GraphIO, as_known, stored_feeds

SOC = "sm8650"
LOSS = 12.0
"""Decibels that quantizing may lose beyond rounding each value to its own grid."""
FORM = 2.0**-17
"""Relative error of a function that a form for HTP writes as a polynomial, or takes from a table."""
APPROXIMATED = {
    ("ElementWiseNeuron", enums.SOFTPLUS),
    *(("ElementWiseUnary", operation) for operation in (enums.ASIN, enums.COS, enums.SIN)),
}
"""Such functions."""
POLES = re.compile("div|mod|remainder|reciprocal|rsqrt|pow|log|acosh|atanh|normal|digamma|gamma")
"""Functions that have no value where a number near 0, or near the end of a range, is rounded to it."""
LARGEST = 1e4
"""Largest number of an input, a constant or an output of a network that is quantized."""
ENOUGH = 30.0
"""Decibels of signal to noise that are never too few."""


def run(
    framework: Framework, model: xdlc.Model, feeds: dict[str, Array], network: Network, kind: str
) -> dict[str, Array]:
    """Return the outputs of a converted model by the names of the network.

    Raises:
        Difference: If it does not run.
        UnsupportedOp: If an op does not run on the host.
    """
    try:
        return framework.named(network, xdlc.run(model, feeds))
    except UnsupportedOp:
        raise
    except XdlcError as error:
        raise Difference(f"converts and does not run, {kind}", network, str(error)) from error


class Trip:
    """A network that xdlc has converted, with the results of the engine.

    Attributes:
        framework: The engine.
        model: The converted model.
        feeds: Inputs by name.
        wanted: Outputs by the engine.
        folder: Folder for files.
    """

    def __init__(
        self,
        framework: Framework,
        network: Network,
        model: xdlc.Model,
        feeds: dict[str, Array],
        wanted: dict[str, Array],
        folder: Path,
    ) -> None:
        self.framework, self.network, self.model = framework, network, model
        self.feeds, self.wanted, self.folder = feeds, wanted, folder

    def judge(self, model: xdlc.Model, kind: str, relative: float = FLOAT32) -> str:
        """Run a model and compare it with the engine."""
        ours = run(self.framework, model, self.feeds, self.network, kind)
        return compare(self.framework, self.network, self.feeds, ours, self.wanted, kind, relative)

    def saved(self) -> str:
        """Save the model, read it, and run that."""
        path = self.folder / "out.dlc"
        try:
            xdlc.save(self.model, path)
            again = xdlc.load(path)
        except XdlcError as error:
            raise Difference("not saved or not read", self.network, str(error)) from error
        return self.judge(again, "saved")

    def optimized(self) -> str:
        """Run some passes of a stage, then the model."""
        rng = random.Random(len(self.network.ops()))
        stage = rng.choice(passes.STAGES)
        names = [each.name for each in passes.stage(stage)]
        names = rng.sample(names, min(4, len(names)))
        try:
            model = api.optimize(self.model, names)
        except ConstraintError:  # a value that HTP cannot hold
            return "refused by a pass"
        except XdlcError as error:
            raise Difference("passes refuse", self.network, f"{names}: {error}") from error
        is_near = "avoid_faults" in names and any(
            (op.type, op.param("operation", None)) in APPROXIMATED
            for graph in self.model.graphs.values()
            for op in graph.ops
        )
        return self._judge_lowered(model, FORM if is_near else FLOAT32)

    def _judge_lowered(self, model: xdlc.Model, relative: float) -> str:
        """Run and compare a model whose inputs and outputs may have changed."""
        before, after = self.model.main, model.main
        inputs = list(map(GraphIO, map(as_known, before.inputs), after.inputs))
        outputs = list(map(GraphIO, map(as_known, before.outputs), after.outputs))
        is_dynamic = any(tensor.dynamic_axes for tensor in before.inputs)  # HTP has none
        try:
            feeds = self.feeds if is_dynamic else stored_feeds(inputs, self.feeds)
        except UsageError:  # an integer that HTP cannot hold
            return "refused by a pass"
        feeds = {io.lowered.name: feeds[io.tensor.name] for io in inputs}
        try:
            stored = xdlc.run(model, feeds, native=True)
        except UnsupportedOp:
            raise
        except XdlcError as error:
            raise Difference("converts and does not run, optimized", self.network, str(error)) from error
        returned = {
            io.tensor.name: stored[io.lowered.name]
            if tensor.dynamic_axes  # the known sizes are not those of the result
            else io.returned(stored[io.lowered.name], native=False)
            for tensor, io in zip(before.outputs, outputs, strict=True)
        }
        ours = self.framework.named(self.network, returned)
        return compare(self.framework, self.network, self.feeds, ours, self.wanted, "optimized", relative)

    def to_onnx(self) -> str:
        """Write the model as ONNX, run that, and convert it back."""
        path = self.folder / "out.onnx"
        try:
            xdlc.to_onnx(self.model, path)
        except UnsupportedOp:
            return "no form in ONNX"
        from fuzz.differential.onnx_engine import outputs_of

        theirs = self.framework.named(self.network, outputs_of(path.read_bytes(), self.feeds))
        compare(self.framework, self.network, self.feeds, theirs, self.wanted, "to-onnx")
        try:
            back = xdlc.convert(path, notify=lambda _: None)
        except XdlcError as error:
            raise Difference("own ONNX refused", self.network, str(error)) from error
        return self.judge(back, "to-onnx and back")

    def quantized(self, bits: int) -> str:
        """Quantize the model on these inputs and measure the loss.

        The limit is what the network itself loses if each value is off by half a step of its range.
        """
        floats = [name for name, array in self.wanted.items() if array.dtype == np.float32 and array.size > 1]
        if not floats or any(array.dtype != np.float32 for array in self.feeds.values()):
            return "nothing to quantize"
        weights = [array.array() for array in self.network.constants.values()]
        weights = [array for array in weights if array.dtype.kind == "f"]
        if any(
            not np.abs(array).max(initial=0) < LARGEST
            for array in (*self.feeds.values(), *self.wanted.values(), *weights)
        ):
            return "too large to quantize"
        try:
            model = xdlc.quantize(self.model, [self.feeds], act_bitwidth=bits, notify=lambda _: None)
        except UnsupportedOp:
            return "not quantized"
        except (ModelError, BackendError) as error:
            # The network's own rounding may move what the float model computes off or onto a pole.
            if "the float model computes" in str(error) and POLES.search(self.network.ops().lower()):
                return "a rounded divisor is 0"
            raise Difference("quantize refuses", self.network, str(error)) from error
        ours = run(self.framework, model, self.feeds, self.network, f"quantized to {bits} bits")
        apart = spread(self.framework, self.network, self.feeds, FLOAT32, steps=min(1 << bits, 1 << 12) // 2)
        for name in floats:
            other = self.wanted[name].astype(np.float64)
            mine = np.asarray(ours[name]).astype(np.float64)
            if mine.shape != other.shape:
                raise Difference(f"wrong, quantized to {bits} bits", self.network, f"shape of {name}")
            signal, noise = np.sqrt(np.square(other).mean()), np.sqrt(np.square(mine - other).mean())
            if not np.isfinite(noise) and POLES.search(self.network.ops().lower()):
                return "a rounded divisor is 0"
            if not np.isfinite(noise):
                raise Difference(f"wrong, quantized to {bits} bits", self.network, f"{name} is not finite")
            limit = apart[name] * 10 ** (LOSS / 20)
            if noise > max(limit, signal * 10 ** (-ENOUGH / 20)):
                detail = f"{name}: error {noise:.3g} of {signal:.3g}; steps allow {apart[name]:.3g}"
                raise Difference(f"wrong, quantized to {bits} bits", self.network, detail)
        return "quantized"

    def htp(self) -> str:
        """Run the model on the emulation of HTP, and compare it with the host to float16."""
        try:
            ours = self.framework.named(
                self.network, xdlc.run(self.model, self.feeds, runtime="htp", soc=SOC)
            )
        except XdlcError as error:
            return f"refused by HTP, {type(error).__name__}"
        host = run(self.framework, self.model, self.feeds, self.network, "host")
        if any(np.abs(each).max(initial=0) > 1e4 for each in host.values() if each.dtype.kind == "f"):
            return "too large for float16"
        halves = {
            name: each.astype(np.float16) if each.dtype == np.float32 else each for name, each in host.items()
        }
        compare(self.framework, self.network, self.feeds, ours, halves, "HTP", FLOAT16)
        return "equal on HTP"

    def resized(self) -> str:
        """Run the model with inputs of other sizes."""
        feeds = self.network.other_feeds()
        with foreign():
            theirs = self.framework.evaluate(self.network, feeds)
        ours = run(self.framework, self.model, feeds, self.network, "of other sizes")
        return compare(self.framework, self.network, feeds, ours, theirs, "of other sizes")


WAYS: dict[str, Callable[[Trip], str]] = {
    "saved": Trip.saved,
    "optimized": Trip.optimized,
    "to_onnx": Trip.to_onnx,
    "quantized": lambda trip: trip.quantized(8),
    "quantized16": lambda trip: trip.quantized(16),
    "htp": Trip.htp,
    "resized": Trip.resized,
}
"""Ways by the name that cases have."""


def drawn(rng: random.Random) -> tuple[str, ...]:
    """Return the ways of a case: often none, since each costs a run or more."""
    shares = {
        "saved": 0.1,
        "optimized": 0.15,
        "to_onnx": 0.15,
        "quantized": 0.1,
        "quantized16": 0.05,
        "htp": 0.002,
    }
    return tuple(name for name, share in shares.items() if rng.random() < share)
