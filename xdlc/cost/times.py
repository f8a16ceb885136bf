"""Estimated milliseconds of a graph on a device, by a fit to measured times."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from xdlc.cost.device import DeviceCost
from xdlc.ir import Graph, Op
from xdlc.opdefs.traits import macs, operation_name, traits

_DATA = Path(__file__).parent / "data" / "times.json"
SCHEMA = "xdlc.times/2"
FLOAT16, W8A8 = "float16", "w8a8"
FEATURES = {
    "base": "one",
    "dram": "MB of DRAM read and written",
    "vector": "MB of VTCM read and written by kernels other than HMX and DMA",
    "kernels": "thousands of kernels that move bytes",
    "products": "billions of multiplications, channels rounded up to blocks of HMX",
    "curves": "millions of results of Sigmoid, Gelu, Softmax and their like",
    "norms": "millions of results of LayerNorm and its like",
    "narrow": "millions of values of few channels, rounded up to blocks of HMX",
    "outputs": "millions of values of outputs",
}
"""What a time comes from, by the name of its coefficient."""

BLOCK = 32
"""Channels that HMX computes at once."""
MARGIN = 0.1
"""How far outside of the fit a network has an estimate, and how much wider the interval is then."""


@dataclass(frozen=True, slots=True)
class Fit:
    """A fit to the measured times of a device.

    Attributes:
        vtcm_mb: VTCM in MB that the plans were made for.
        precision: ``float16`` or ``w8a8``.
        coefficients: Milliseconds per unit of each feature.
        ranges: Least and most of each feature among the networks.
        ratios: The 10 % and 90 % quantiles of measured by estimated time, for networks outside the fit.
        left_out: Errors for each network by a fit to the others: ``median``, ``worst``, ``rank_correlation``.
        kept_apart: Errors for networks that no choice was made by, and their number, ``networks``.
    """

    device: str
    soc: str
    vtcm_mb: int
    precision: str
    networks: int
    coefficients: Mapping[str, float]
    ranges: Mapping[str, tuple[float, float]]
    ratios: tuple[float, float]
    left_out: Mapping[str, float]
    kept_apart: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Fits:
    """Fits, and what they were made from.

    Attributes:
        source: Where the measured times are from.
        build: Build of the vendor's library whose plans were used.
    """

    source: str
    build: str
    fits: tuple[Fit, ...]


@dataclass(frozen=True, slots=True)
class Milliseconds:
    """Estimated time of an inference.

    Attributes:
        device: Device whose measured times the estimate is from.
        low: Lower end of the interval that held 80 % of the networks outside the fit.
        high: Upper end of it.
    """

    device: str
    value: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the estimate with its interval."""
        return f"{self.value:.2f} ms ({self.low:.2f} to {self.high:.2f}) on {self.device}"


@cache
def fits() -> Fits:
    """Return the fits of the package."""
    return read_fits(_DATA.read_text(encoding="utf-8"))


def read_fits(text: str) -> Fits:
    """Return the fits of a JSON text.

    Raises:
        ValueError: If it is not of the form.
    """
    content = json.loads(text)
    if content.pop("schema", None) != SCHEMA:
        raise ValueError(f"the file does not have the schema {SCHEMA}")
    try:
        result = Fits(
            content.pop("source"), content.pop("build"), tuple(Fit(**fit) for fit in content.pop("fits"))
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"a member is missing or unknown: {error}") from error
    if content:
        raise ValueError(f"members are unknown: {', '.join(content)}")
    for fit in result.fits:
        if fit.coefficients.keys() != FEATURES.keys() or fit.ranges.keys() != FEATURES.keys():
            raise ValueError(f"the fit of {fit.device} lacks features out of {', '.join(FEATURES)}")
        if min(fit.coefficients.values()) < 0 or not 0 < fit.ratios[0] <= fit.ratios[1]:
            raise ValueError(f"the fit of {fit.device} has a number that is out of bounds")
    return result


def features(cost: DeviceCost, graph: Graph) -> dict[str, float]:
    """Return what the time of a graph is estimated from, by the names of ``FEATURES``."""
    traffic = cost.traffic
    return {
        "base": 1.0,
        "dram": traffic.dram / 1e6,
        "vector": cost.vector / 1e6,
        "kernels": cost.kernels.total() / 1e3,
        "products": sum(map(_products, graph.ops)) / 1e9,
        "curves": sum(op.outputs[0].size for op in graph.ops if _is_curve(op)) / 1e6,
        "norms": sum(op.outputs[0].size for op in graph.ops if _is_norm(op)) / 1e6,
        "narrow": _narrow(graph) / 1e6,
        "outputs": sum(tensor.size for tensor in graph.outputs) / 1e6,
    }


def time(coefficients: Mapping[str, float], own: Mapping[str, float]) -> float:
    """Return the milliseconds of a graph by its features.

    Reads from DRAM run beside the kernels: both join as the sides of a right angle.
    """
    parts = {name: coefficients[name] * own[name] for name in FEATURES}
    base, memory = parts.pop("base"), parts.pop("dram")
    return base + math.hypot(memory, sum(parts.values()))


def _products(op: Op) -> float:
    """Return the MACs of an op whose matrix is rounded up to blocks.

    The rows of a convolution are the values below its window. Each group has blocks of its own, and each
    channel of a depthwise convolution.
    """
    count = macs(op)
    data, weight = (*op.inputs, None, None)[:2]
    if not count or data is None or weight is None:
        return 0
    inner, outer = (weight if traits(op).macs == "dense" else data).shape[-1], op.outputs[0].shape[-1]
    if op.type.startswith("DepthWise"):
        inner = 1
    elif traits(op).is_convolution:
        inner, outer = math.prod(weight.shape[:-1]), weight.shape[-1]
    return count * _blocks(inner) / max(inner, 1) * _blocks(outer) / max(outer, 1)


def _blocks(channels: int) -> int:
    """Return channels rounded up to blocks of HMX."""
    return -(-channels // BLOCK) * BLOCK


def _is_curve(op: Op) -> bool:
    """Return whether an op computes more per value than sums, products and limits."""
    if op.type == "ElementWiseNeuron":
        return operation_name(op) not in ("Relu", "ReluMinMax")
    return traits(op).squashes


def _is_norm(op: Op) -> bool:
    """Return whether an op computes statistics of its input."""
    return traits(op).norm and op.type != "Batchnorm"


def _narrow(graph: Graph) -> float:
    """Return the values of few channels, like the colours of an image.

    They are float inputs, which become float16, and results of ops that scale each channel.
    """
    results = [
        op.outputs[0]
        for op in graph.ops
        if op.type in ("Batchnorm", "ElementWiseBinary")
        and any(tensor is not None and tensor.is_static and tensor.size > 1 for tensor in op.inputs)
    ]
    return sum(
        tensor.size * _blocks(tensor.shape[-1]) / tensor.shape[-1]
        for tensor in [*(tensor for tensor in graph.inputs if tensor.dtype.is_float), *results]
        if tensor.shape and 0 < tensor.shape[-1] < BLOCK
    )


def precision(graph: Graph) -> str:
    """Return ``float16``, ``w8a8``, or what else the ops that multiply have."""
    types = {
        (tensor.dtype.is_float, tensor.dtype.bits)
        for op in [op for op in graph.ops if macs(op)] or graph.ops
        for tensor in (
            *op.outputs,
            *(tensor for tensor in op.inputs if tensor is not None and tensor.is_static),
        )
        if tensor.dtype.is_float or tensor.dtype.is_fixed
    }
    # Biases of quantized networks have 32 bits.
    if types and all(is_float for is_float, _ in types):
        return FLOAT16
    if types - {(False, 32)} == {(False, 8)}:
        return W8A8
    return "of mixed types or other widths"


def milliseconds(cost: DeviceCost, graph: Graph) -> Milliseconds | str:
    """Return the estimated time of a graph, or why it has no estimate.

    Args:
        cost: Its cost on a SoC.
    """
    kind = precision(graph)
    of_soc = [fit for fit in fits().fits if fit.soc == cost.soc]
    if not of_soc:
        socs = ", ".join(sorted({fit.soc for fit in fits().fits}))
        return f"xdlc has times for {socs}, not for {cost.soc}"
    fit = next((fit for fit in of_soc if fit.precision == kind), None)
    if fit is None:
        kinds = ", ".join(fit.precision for fit in of_soc)
        return f"the graph is {kind}; for {cost.soc} xdlc has times of {kinds}"
    if cost.vtcm_mb != fit.vtcm_mb:
        return f"xdlc has times for {fit.vtcm_mb} MB of VTCM, not for {cost.vtcm_mb}"
    own, beyond = features(cost, graph), 0.0
    for name, (least, most) in fit.ranges.items():
        if not least <= own[name] <= most:
            beyond = MARGIN
        if not least * (1 - MARGIN) <= own[name] <= most * (1 + MARGIN):
            span = f"{least:.4g} to {most:.4g}"
            return f"the graph has {own[name]:.4g} {FEATURES[name]}; times come from networks with {span}"
    value = time(fit.coefficients, own)
    low, high = fit.ratios[0] * (1 - beyond), fit.ratios[1] * (1 + beyond)
    return Milliseconds(fit.device, value, value * low, value * high)
