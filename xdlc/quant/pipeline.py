"""Pipeline of the quantizer: place, calibrate, decide, apply."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from xdlc.container import udo
from xdlc.errors import ModelError, UsageError
from xdlc.ir import Graph, Model
from xdlc.ir.data import has_nan
from xdlc.quant.advice import check_figures, goal_warnings, stretched_warnings, warnings
from xdlc.quant.affine import used_bits
from xdlc.quant.algorithms import Algorithm, Stage, find_algorithms
from xdlc.quant.apply import sign
from xdlc.quant.attention_masks import bound_masks, find_masks
from xdlc.quant.bias import choose_correction
from xdlc.quant.capabilities import check_ops, check_options, refused_by_target
from xdlc.quant.existing_encodings import adopt_borders, dequantize_weights, keep_weights, spread_encodings
from xdlc.quant.float_rewrites import drop_nan_checks, matmul_to_fully_connected
from xdlc.quant.job import Job, Step
from xdlc.quant.kernels import KernelSource, Paths
from xdlc.quant.kind_inference import check_kinds
from xdlc.quant.ladder import ladder_note
from xdlc.quant.options import QuantOptions
from xdlc.quant.output_accuracy import figure_note, kinds_note, measure_figures
from xdlc.quant.overrides.importing import Importing
from xdlc.quant.overrides.importing import Source as OverrideSource
from xdlc.quant.overrides.matching import note_names
from xdlc.quant.placement import Placement
from xdlc.quant.plan import GraphPlan
from xdlc.quant.precision import Precision, asked_precision
from xdlc.quant.report.reporter import PathLike, Reporter
from xdlc.quant.requantize import float_model, was_quantized
from xdlc.quant.sample_summary import SampleSummary
from xdlc.quant.samples import Samples, Source, check_held_out
from xdlc.quant.states import in_order, sequence_notes
from xdlc.quant.subgraphs import inner_graphs
from xdlc.quant.udo import UdoConstraints
from xdlc.quant.udo_notes import check_udos, one_scale_notes
from xdlc.quant.user_metric import Evaluate, checked
from xdlc.quant.widening import widen_mixed_scales, widen_residual
from xdlc.runtime import dynamic_dims
from xdlc.runtime.states import next_values

_log = logging.getLogger(__name__)


def _refuse_quantized(placement: Placement, graph: Graph) -> None:
    """Refuse a graph in which every value of every op has an encoding: nothing is left to decide.

    Raises:
        UsageError: Naming the graph.
    """
    values = [tensor for op in placement.fixed for tensor in (*op.inputs, *op.outputs) if tensor is not None]
    if values and not any(tensor.dtype.is_float for tensor in values):
        raise _quantized(graph)


def _quantized(graph: Graph) -> UsageError:
    return UsageError(
        "is quantized already: its encodings are kept, and nothing is left to be decided",
        where=f"graph {graph.name!r}",
        fix="add requantize=True to quantize it anew from the weights that it stores, or use it as it is",
    )


def quantize(
    model: Model,
    samples: Source,
    *,
    report: Reporter | PathLike | None = None,
    report_list: Source | None = None,
    step: Step | None = None,
    notify: Callable[[str], None] | None = None,
    evaluate: Evaluate | str | None = None,
    min_score: float | None = None,
    quantization_overrides: OverrideSource | None = None,
    ignore_quantization_overrides: bool = False,
    requantize: bool = False,
    udo_package_path: Paths | None = None,
    udo_timeout: float | None = None,
    fail_below: float | None = None,
    command: Sequence[str] = (),
    **options: Any,
) -> Model:
    """Return a quantized copy of a model; the arguments are those of :func:`xdlc.quantize`.

    Activations become unsigned fixed point with an exact zero, weights signed and symmetric per output
    channel, biases 32 bits; tensors that hold integers stay, and ops without a fixed-point kernel
    stay float between Quantize and Dequantize.  Encodings that the model has already are kept.
    Branches and loop bodies read and write floats and are quantized in between; one that no sample runs
    stays float.  Compiled caches in the model are dropped, for they belong to the float graph.

    UDOs are run by the kernels of the arguments, and quantized as far as their definitions take fixed
    point: activations are signed where it has them only so, and what it has as floats only, stays float.

    The float model is not changed; its weights are shared.  Samples are read one at a time; those that can
    be read but once, like a generator's, are kept on disk where they are wanted again.  Figures and a report
    are measured with ``report_list``, or else with every fifth sample under the ranges of the others; the
    result is the same with and without it.

    Raises:
        UsageError: For options that do not fit, an unknown algorithm, no samples, a sample that does
            not fit the inputs or holds NaN or infinite values, encodings that match no tensor or do not fit,
            UDOs without a kernel.
        StorageError: If the file of encodings cannot be read.
        ModelError: If weights or activations are NaN or infinite.
        ConstraintError: If the target does not take the widths of an op, or a definition those of encodings;
            if an output is below ``fail_below`` or useless (the report, if any, is written).
        BackendError: If a kernel of a UDO fails.
    """
    asked = QuantOptions.of(options)
    check_options(asked)
    check_kinds(model.main, asked.output_kind)
    dropped = 0
    if requantize:
        model, dropped = float_model(model)
    elif was_quantized(model):
        raise _quantized(model.main)
    if (evaluate is None) is not (min_score is None):
        raise UsageError(
            "one of evaluate and min_score is missing",
            where="evaluate",
            fix="give both: evaluate=FUNCTION and min_score=NUMBER, what it has to return at least",
        )
    metric = None if evaluate is None else checked(evaluate)
    algorithms = find_algorithms(_names(asked, metric))
    if asked.enable_float_fallback and algorithms:
        raise UsageError(
            f"{algorithms[0].name} needs calibration, which float fallback omits",
            where="enable_float_fallback",
            fix="omit one of the two",
        )
    if asked.enable_float_fallback and fail_below is not None:
        raise UsageError(
            "without calibration no output is measured",
            where="fail_below",
            fix="give calibration samples and no float fallback, or omit fail_below",
        )
    precision = Precision(asked.act_bitwidth, asked.weights_bitwidth)
    importing = Importing(quantization_overrides, ignore=ignore_quantization_overrides)
    reporter = report if report is None or isinstance(report, Reporter) else Reporter(report)
    own = report_list if reporter is None or reporter.samples is None else reporter.samples
    again = bool(algorithms or next_values(model)) or (reporter is not None and own is None)
    source = KernelSource.of(udo_package_path, timeout=udo_timeout)
    runs = not asked.enable_float_fallback or reporter is not None
    with (
        source.opened(model, needed=runs) as kernels,
        Samples(read := in_order(samples, model, kernels), again=again) as kept,
        Samples(() if own is None else in_order(own, model, kernels)) as held_out,
    ):
        if own is not None:
            check_held_out(held_out, model.main)
        if reporter is not None:
            reporter.begin(kept if own is None else held_out, is_own=own is not None)
        job = Job(model.clone(), asked, kept, precision, step=step)
        job.kernels, job.kernel_source = kernels, source
        unbound = dynamic_dims.notice(model)
        job.notes += [] if unbound is None else [unbound]
        if requantize:
            job.notes.append(f"requantized: weights as stored, encodings of {dropped} tensors dropped")
        job.command = command
        job.per_channel = bool(options.get("use_per_channel_quantization"))
        if metric is not None and min_score is not None:
            job.evaluate, job.min_score = metric, min_score
        try:
            moved = _quantize(
                job, algorithms, reporter, importing, fail_below, None if own is None else held_out
            )
        except ModelError as error:
            _check_weights(model)
            if not asked.bound_attention_masks and find_masks(model.main).hiding:
                error.fix = f"pass bound_attention_masks=True, for there are masks, or {error.fix}"
            raise
        job.notes += sequence_notes(job, read)
        job.notes += source.notes(model, kernels)
    note_names(job.model, model, moved)
    sign(job.model, asked)
    importing.sign(job.model)
    for text in (*job.notes, *job.warnings):
        if notify is not None:
            notify(text)
        elif text.startswith("warning"):
            _log.warning(text.partition(":")[2].strip())
    return job.model


def _check_weights(model: Model) -> None:
    """Refuse a model whose weights hold NaN: no sample is the cause of what it computes.

    Raises:
        ModelError: If there are any; it names the first.
    """
    for graph in model.graphs.values():
        for tensor in graph.tensors.values():
            if tensor.data is not None and has_nan(tensor.data):
                raise ModelError(
                    f"weight {tensor.name!r} holds NaN, which no encoding can hold",
                    where=f"graph {graph.name!r}",
                    fix="convert the network with weights from before its training diverged",
                )


def _names(options: QuantOptions, evaluate: Evaluate | None) -> list[str]:
    """Return the algorithms to run; a goal or a ladder is for mixed precision, named or not."""
    names = list(options.algorithms)
    has_goal = options.has_goal or evaluate is not None
    if (has_goal or options.accuracy != "fast") and "mixed_precision" not in names:
        names.append("mixed_precision")
    return names


def _quantize(
    job: Job,
    algorithms: list[Algorithm],
    reporter: Reporter | None,
    importing: Importing,
    fail_below: float | None,
    held_out: Samples | None,
) -> dict[str, str]:
    """Quantize the job's model; return the names of static tensors in new shapes, and the old names."""
    stored = dequantize_weights(job.graph)
    importing.match(job)
    adopt_borders(job.graph)
    if job.bounds_masks and not job.options.enable_float_fallback:
        for graph in job.model.graphs.values():
            bound_masks(graph)
    moved = matmul_to_fully_connected(job.graph)
    kept = keep_weights(job.graph, stored)
    importing.give(job, moved)
    _run(job, algorithms, Stage.GRAPH)
    job.precision = asked_precision(job.graph, job.options, _udo_constraints(job))
    for op in job.graph.ops:
        weight = op.inputs[1] if len(op.inputs) > 1 else None
        if weight is not None and weight.encoding is not None and weight.name in kept:
            job.precision.statics[weight.name] = kept[weight.name]
            job.precision.weights[op.name] = used_bits(weight.encoding) or kept[weight.name].bits
    importing.settle(job)
    if job.options.enable_float_fallback:
        spread_encodings(job.graph)
    job.place()
    removed = drop_nan_checks(job.graph, job.placement) if job.options.drop_nan_checks else []
    if removed:
        job.notes += removed
        job.place()
    if not job.options.enable_float_fallback:
        job.inner = inner_graphs(job.model, job.options, job.precision.udos)
    parts: list[GraphPlan] = [job, *job.inner]
    job.notes += check_udos(parts)
    _refuse_quantized(job.placement, job.graph)
    # Early, for calibration takes time; and again, for algorithms may have changed widths.
    check_ops(job.graph, job.placement, job.precision, job.options)
    if not job.options.enable_float_fallback:
        summary = SampleSummary(job.graph, job.model.metadata.get("layouts", {}))
        job.calibrate(summary)
        job.look_at_samples(summary)
        job.notes += widen_mixed_scales(job)
        job.notes += widen_residual(job)
    job.choose()
    _run(job, algorithms, Stage.PRECISION)
    job.decide()
    if job.per_channel:
        job.notes += one_scale_notes(parts)
    for part in parts:
        job.notes += check_ops(part.graph, part.placement, part.precision, job.options)
    importing.conclude(job)
    job.reference = job.model.clone()
    job.under_way("measuring")
    results = choose_correction(job)
    has_changed = any(chosen.stage is Stage.WEIGHTS for chosen in algorithms)
    if has_changed:
        _run(job, algorithms, Stage.WEIGHTS)
    if held_out is not None and job.measured:  # after what is chosen by the samples of calibration
        job.measure_with(held_out)
    if has_changed or job.has_own_list:
        job.under_way("measuring")
        results = list(job.measured_results(corrected=job.corrects_biases))
    job.figures = measure_figures(job, results)
    if reporter is not None:
        reporter.finish(job)
    job.notes += [ladder_note(job)] if job.rungs else []
    check_figures(job, job.figures, fail_below)
    if job.figures:
        job.notes += [figure_note(job.figures), kinds_note(job.figures)]
    job.warnings = [*warnings(job, job.figures), *goal_warnings(job, job.figures), *stretched_warnings(job)]
    job.under_way("storing")
    job.finish()
    job.notes += refused_by_target(job.model, job.options.soc)
    return {new.name: old.name for new, old in moved.items()}


def _udo_constraints(job: Job) -> UdoConstraints:
    soc = job.options.soc
    return UdoConstraints.of(udo.definitions(job.model), soc.arch if soc is not None else None)


def _run(job: Job, algorithms: list[Algorithm], stage: Stage) -> None:
    for chosen in algorithms:
        if chosen.stage is stage:
            job.under_way(chosen.name)
            chosen.run(job)
