"""The quantizer from end to end: place, calibrate, decide, apply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict

from xdlc.errors import UsageError
from xdlc.ir import Graph, Model
from xdlc.passes import DequantizeWeights
from xdlc.quant.algorithms import find_algorithms
from xdlc.quant.apply import apply
from xdlc.quant.bias import averaged_inputs, correct_biases
from xdlc.quant.calibrate import Sample, calibrate
from xdlc.quant.decide import Decider, watch_list
from xdlc.quant.matmul import matmul_to_fully_connected
from xdlc.quant.options import QuantOptions
from xdlc.quant.placement import Placement, place
from xdlc.quant.sharing import Sharing
from xdlc.version import VERSION

_STALE_RECORDS = ("htp.", "aip.")


def _refuse_quantized(placement: Placement, graph: Graph) -> None:
    """Refuse a graph in which every value of every op has an encoding: nothing is left to decide.

    Raises:
        UsageError: Naming the graph.
    """
    values = [tensor for op in placement.fixed for tensor in (*op.inputs, *op.outputs) if tensor is not None]
    if values and not any(tensor.dtype.is_float for tensor in values):
        raise UsageError(
            "is quantized already: every value of its ops has an encoding, those are kept, and none is left "
            "to be decided",
            where=f"graph {graph.name!r}",
            fix="use the model as it is, or quantize the float model that it came from",
        )


def quantize(
    model: Model,
    samples: Iterable[Sample],
    *,
    weights_bitwidth: int = 8,
    act_bitwidth: int = 8,
    bias_bitwidth: int = 32,
    use_per_channel_quantization: bool = True,
    algorithms: Sequence[str] = (),
    progress: Callable[[int], None] | None = None,
) -> Model:
    """Return the model quantized by minima and maxima over calibration samples.

    Activations become unsigned fixed point with an exact zero, weights signed and symmetric per output
    channel, biases 32 bits; tensors that hold integers stay, and ops without a fixed-point kernel
    stay float between Quantize and Dequantize.  Encodings that the model has already are kept.  The
    main graph is quantized; branches and loop bodies stay float.  Compiled caches in the model are left
    out, for they belong to the float graph.

    Args:
        model: A float model; it is not changed, its weights are shared.
        samples: Arrays by input name in the graph's own layout and dtypes; read once, one at a time,
            so a generator will do.
        weights_bitwidth: 4, 8 or 16.
        act_bitwidth: 8 or 16.
        bias_bitwidth: 32, or 8 where weights have one scale.
        use_per_channel_quantization: One scale per output channel of convolutions and fully connected
            layers.
        algorithms: Names of registered algorithms to run before calibration, in order.
        progress: Called after each sample with the number of samples done.

    Raises:
        UsageError: For options that do not fit, an unknown algorithm, no samples, or a sample that does
            not fit the inputs or holds NaN or infinite values.
        ModelError: If weights or activations are NaN or infinite.
    """
    options = QuantOptions(
        weights_bitwidth=weights_bitwidth,
        act_bitwidth=act_bitwidth,
        bias_bitwidth=bias_bitwidth,
        use_per_channel_quantization=use_per_channel_quantization,
    )
    algorithms = [algorithms] if isinstance(algorithms, str) else list(algorithms)
    chosen = find_algorithms(algorithms)
    result = model.clone()
    graph = result.main
    DequantizeWeights(refused_only=False).apply(graph)
    matmul_to_fully_connected(graph)
    for rewrite in chosen:
        rewrite(graph)
    placement = place(graph, options.act_bitwidth)
    _refuse_quantized(placement, graph)
    sharing = Sharing(graph, placement)
    seen = calibrate(
        result,
        watch_list(graph, placement, sharing),
        samples,
        averaged=averaged_inputs(graph, placement),
        progress=progress,
    )
    decision = Decider(graph, placement, sharing, seen.ranges, options).decide()
    correct_biases(graph, placement, decision, seen.means)
    apply(graph, placement, decision)
    for name in [name for name in result.records if name.startswith(_STALE_RECORDS)]:
        del result.records[name]
    result.metadata.pop("cacheList", None)
    args = {key: str(value) for key, value in asdict(options).items()}
    if algorithms:
        args["algorithms"] = ",".join(algorithms)
    result.metadata.setdefault("history", []).append(
        {"tool": "xdlc-quant", "converterVersion": VERSION, "args": args}
    )
    return result
