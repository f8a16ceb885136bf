"""Pipeline of the quantizer: place, calibrate, decide, apply."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from xdlc.container import udo
from xdlc.errors import ModelError, UsageError, XdlcError
from xdlc.ir import DType, Graph, Model, Tensor
from xdlc.ir.data import has_nan
from xdlc.opdefs.control_flow import outer_graphs
from xdlc.options import spell
from xdlc.quant.advice import Phrase, Remedies, check_figures, goal_warnings, stretched_warnings, warnings
from xdlc.quant.algorithms import Algorithm, Stage, find_algorithms
from xdlc.quant.attention_masks import bound_masks, bounded_samples, find_masks
from xdlc.quant.auto_range import choose
from xdlc.quant.calibration.calibrate import Calibration, calibrated, measure_with
from xdlc.quant.capabilities import check_ops, fit_options, refused_by_target
from xdlc.quant.engine import Engine, Evaluate, KernelSource, Metric, Paths, Step, checked
from xdlc.quant.entry_graphs import (
    Entry,
    by_graph,
    entry_notes,
    follow,
    in_shapes,
    merge_statistics,
    share_data,
    take_entries,
)
from xdlc.quant.existing_encodings import (
    adopt_borders,
    dequantize_weights,
    float_model,
    keep_weights,
    spread_encodings,
    was_quantized,
)
from xdlc.quant.float_types import drop_nan_checks, matmul_to_fully_connected
from xdlc.quant.judge import check_kinds
from xdlc.quant.ladder import ladder_note
from xdlc.quant.options import QuantOptions
from xdlc.quant.output_accuracy import (
    Figure,
    choose_correction,
    figure_note,
    kinds_note,
    measure_figures,
    measured_results,
)
from xdlc.quant.overrides.importing import Importing
from xdlc.quant.overrides.importing import Source as OverrideSource
from xdlc.quant.overrides.matching import note_names
from xdlc.quant.placement import Placement
from xdlc.quant.plan import Plan
from xdlc.quant.precision import Precision, asked_precision
from xdlc.quant.ranges import used_bits
from xdlc.quant.report.measure import judged
from xdlc.quant.report.reporter import PathLike, Reporter
from xdlc.quant.sample_faults import find_faults
from xdlc.quant.sample_summary import SampleSummary
from xdlc.quant.samples import Sample, Samples, Source, as_stored, check_held_out, read_samples
from xdlc.quant.states import InOrder, sequence_notes
from xdlc.quant.storing import inner_graphs, sign, store
from xdlc.quant.ties import check_types, find_ties, part_results, tie_notes
from xdlc.quant.udo import UdoConstraints, check_udos, one_scale_notes
from xdlc.quant.widening.activations import widen_mixed_scales, widen_residual
from xdlc.runtime import dynamic_dims
from xdlc.runtime.states import next_values
from xdlc.runtime.timeout import OBSERVED
from xdlc.runtime.udo import Kernels
from xdlc.worker.executors import open_workers

ALIKE = 16
"""Most samples of the main graph that show ranges of tensors that only a further graph has."""
_log = logging.getLogger(__name__)


def _refuse_quantized(placement: Placement, graph: Graph) -> None:
    """Refuse a graph in which every value of every op has an encoding."""
    values = [tensor for op in placement.fixed for tensor in (*op.inputs, *op.outputs) if tensor is not None]
    if values and not any(tensor.dtype.is_float for tensor in values):
        raise _quantized(graph)


def _quantized(graph: Graph) -> UsageError:
    return UsageError(
        "the model is already quantized",
        where=f"graph {graph.name!r}",
        fix=f"add {spell('requantize', True)} to quantize the stored weights again, or use the DLC as before",
        code="XD210",
    )


def quantize(
    model: Model,
    samples: Source | Mapping[str, Source],
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
    phrase: Phrase = str,
    advise: bool = True,
    **options: Any,
) -> Model:
    """Return a quantized copy of a model.

    The arguments are those of :func:`xdlc.quantize`; without ``advise``, no options are tried that could
    improve poor outputs.

    Activations become unsigned fixed point with an exact zero, weights signed and symmetric per output
    channel, biases 32 bits; tensors that hold integers stay, and ops without a fixed-point kernel
    stay float between Quantize and Dequantize.  Encodings that the model has already are kept.
    Branches and loop bodies read and write floats and are quantized in between; one that no sample runs
    stays float.  Compiled caches in the model are dropped, for they belong to the float graph.

    UDOs run on the kernels of the arguments, and are quantized as far as their definitions support fixed
    point; activations are signed where the definition has no unsigned type.

    Further graphs of the same weights have the encodings of the main one by name, and its stored weights.

    The float model is not changed; its weights are shared.  Samples are read one at a time; those of
    a generator are stored on disk if they are read again.  Figures and a report
    are measured with ``report_list``, or else with every fifth sample under the ranges of the others; the
    result is the same with and without it.

    Raises:
        UsageError: For options that do not fit, an unknown algorithm, no samples, a sample that does
            not fit the inputs or holds NaN or infinite values, encodings that match no tensor or do not fit,
            UDOs without a kernel.
        StorageError: If the file of encodings cannot be read.
        ModelError: If weights or activations are NaN or infinite.
        ConstraintError: If the target does not support the widths of an op, or a definition an encoding;
            if an output is below ``fail_below`` or useless (the report, if any, is written).
        BackendError: If a kernel of a UDO fails.
    """
    asked = QuantOptions(**options)
    adapted = fit_options(asked, [name for name, value in options.items() if value is not None])
    check_kinds(model.main, asked.output_kind)
    dropped = 0
    if requantize:
        model, dropped = float_model(model)
    elif was_quantized(model):
        raise _quantized(model.main)
    if (evaluate is None) is not (min_score is None):
        raise UsageError(
            f"{spell('evaluate')} or {spell('min_score')} is missing",
            where=spell("evaluate"),
            fix="pass a function, and the smallest score that the function must return",
        )
    metric = Metric(checked(evaluate), min_score) if evaluate is not None and min_score is not None else None
    algorithms = find_algorithms(_names(asked, metric))
    uncalibrated = spell("weights_only" if asked.weights_only else "enable_float_fallback")
    if asked.enable_float_fallback and algorithms:
        raise UsageError(
            f"{algorithms[0].name} needs calibration, but you also passed {uncalibrated}",
            where=uncalibrated,
            fix=f"omit the algorithm, or {uncalibrated}",
        )
    if asked.enable_float_fallback and fail_below is not None:
        raise UsageError(
            "xdlc measures outputs only with calibration samples",
            where=spell("fail_below"),
            fix=f"pass calibration samples and omit {uncalibrated}, or omit this option",
        )
    importing = Importing(quantization_overrides, ignore=ignore_quantization_overrides)
    reporter = report if report is None or isinstance(report, Reporter) else Reporter(report)
    own = report_list if reporter is None or reporter.samples is None else reporter.samples
    states, sources = next_values(model), by_graph(samples, model)
    again = bool(algorithms or states or outer_graphs(model)[1:]) or (reporter is not None and own is None)
    source = KernelSource.of(udo_package_path, timeout=udo_timeout)
    runs = not asked.enable_float_fallback or reporter is not None
    with (
        open_workers(asked.jobs, asked.scheduler, asked.executor) as workers,
        source.opened(model, needed=runs) as kernels,
        Samples(read := _read(sources[model.main.name], model, states, kernels), again=again) as kept,
        Samples(() if own is None else _read(own, model, states, kernels)) as held_out,
    ):
        if own is not None:
            check_held_out(held_out, model.main)
        if reporter is not None:
            reporter.begin(kept if own is None else held_out, is_own=own is not None)
        timeout = OBSERVED if asked.loop_timeout is None else asked.loop_timeout
        engine = Engine(kernels, source, workers, timeout, metric, step)
        twin = model.clone()
        entries, unlike = take_entries(twin)
        try:
            plan, moved = _prepare(twin, asked, algorithms, importing, kept, engine)
            _prepare_entries(entries, plan, sources, engine)
            plan, calibration = _calibrate(plan, kept, engine)
            for entry in entries:
                merge_statistics(plan, calibration, entry)
            plan = choose(plan, calibration, engine)
            plan = _run(algorithms, Stage.PRECISION, plan, calibration, engine).decided(calibration)
            per_channel = bool(options.get("use_per_channel_quantization"))
            plan = _check(plan, importing, is_per_channel_asked=per_channel)
            plan, figures = _measure(plan, algorithms, calibration, engine, None if own is None else held_out)
            remedies = Remedies(plan, calibration, engine, figures)
            if reporter is not None:
                reporter.finish(remedies, phrase)
            plan, lost = _advise(remedies, fail_below, phrase, notify, tries=advise)
            engine.report("storing")
            followed = [follow(entry, plan, partial(_measured_alike, kept, engine)) for entry in entries]
            plan = plan.noted(*store(plan, calibration.means if plan.corrects_biases else {}))
            plan = plan.noted(*tie_notes(plan.graph, plan.main.ties))
            for entry, entry_plan in zip(entries, followed, strict=True):
                store(entry_plan, {})
                plan = plan.noted(*entry_plan.notes)
                share_data(entry, plan.graph)
            graphs = twin.graphs | {entry.graph.name: entry.graph for entry in entries}
            twin.graphs = {name: graphs[name] for name in model.graphs}
            plan = plan.noted(*entry_notes(entries, {} if asked.weights_only else unlike, plan.graph))
        except ModelError as error:
            _check_weights(model)
            if not asked.bound_attention_masks and find_masks(model.main).hiding:
                error.fix = f"{spell('bound_attention_masks', True)} limits the masks; or {error.fix}"
            raise
        unbound = dynamic_dims.notice(model)
        notes = adapted if unbound is None else [*adapted, unbound]
        if requantize:
            notes.append(f"requantized: xdlc kept stored weights and dropped encodings of {dropped} tensors")
        notes += [*plan.notes, *refused_by_target(twin, asked.soc)]
        if isinstance(read, InOrder):
            notes += sequence_notes(plan, kept, engine, figures, read)
        notes += source.notes(model, kernels)
    note_names(twin, model, moved)
    sign(twin, asked)
    importing.sign(twin)
    for line in (*notes, *lost):
        text = phrase(line)
        if notify is not None:
            notify(text)
        elif text.startswith("warning"):
            _log.warning(text.partition(":")[2].strip())
    return twin


def _read(
    source: Source, model: Model, states: Mapping[str, str], kernels: Kernels | None
) -> Iterable[Sample]:
    """Return the samples of a source, each with a value of every variable.

    Args:
        states: The output with the next value of each input that holds a variable.
    """
    samples = bounded_samples(read_samples(source, model.main, optional=states), model.main)
    samples = as_stored(samples, model.main)
    return InOrder(samples, model, kernels) if states else samples


def _check_weights(model: Model) -> None:
    """Refuse a model whose weights contain NaN."""
    for graph in model.graphs.values():
        for tensor in graph.tensors.values():
            if tensor.data is not None and has_nan(tensor.data):
                raise ModelError(
                    f"weight {tensor.name!r} holds NaN, which no encoding can hold",
                    where=f"graph {graph.name!r}",
                    fix="use weights from before the training diverged, and convert the model again",
                )


def _names(options: QuantOptions, metric: Metric | None) -> list[str]:
    """Return the algorithms to run; mixed precision too for a goal or a ladder."""
    names = list(options.algorithms)
    has_goal = options.has_goal or metric is not None
    if (has_goal or options.accuracy != "fast") and "mixed_precision" not in names:
        names.append("mixed_precision")
    return names


def _prepare(
    model: Model,
    options: QuantOptions,
    algorithms: list[Algorithm],
    importing: Importing,
    samples: Samples,
    engine: Engine,
) -> tuple[Plan, dict[str, str]]:
    """Bring the graphs of a model into the form to quantize, and place their ops.

    Returns:
        The plan, and the names of static tensors in new shapes with the old names.
    """
    graph = model.main
    stored, moved, notes = _in_form(model, options, importing)
    kept = keep_weights(graph, stored)
    importing.give(graph, options, moved)
    if any(algorithm.stage is Stage.GRAPH for algorithm in algorithms):
        changed = _run(algorithms, Stage.GRAPH, Plan.of(model, options), Calibration(samples), engine)
        notes += changed.notes
    soc = options.soc
    udos = UdoConstraints.of(udo.definitions(model), soc.arch if soc is not None else None)
    precision = asked_precision(graph, options, udos)
    part_results(graph, find_ties(model, options), precision)
    _keep_widths(graph, precision, kept)
    importing.settle(graph, precision)
    if options.enable_float_fallback and not options.weights_only:
        spread_encodings(graph)
    plan = Plan.of(model, options, precision)
    removed = drop_nan_checks(graph, plan.placement) if options.drop_nan_checks else []
    if removed:
        plan = Plan.of(model, options, precision)
    if not options.enable_float_fallback:
        plan = replace(plan, inner=inner_graphs(model, options, udos))
    check_types(graph, plan.main.ties, partial(plan.placement.type_of, graph))
    plan = plan.noted(*notes, *removed, *check_udos(plan.parts))
    _refuse_quantized(plan.placement, graph)
    # Early, for calibration takes time; and again, for algorithms may change widths.
    check_ops(graph, plan.placement, precision, options)
    return plan, {new.name: old.name for new, old in moved.items()}


def _in_form(
    model: Model, options: QuantOptions, importing: Importing
) -> tuple[dict[Tensor, Tensor], dict[Tensor, Tensor], list[str]]:
    """Bring the graphs of a model into the form that is quantized.

    Returns:
        Static integers by the floats that they denote, old static tensors by those in new shapes, and notes.
    """
    stored = dequantize_weights(model.main)
    notes = importing.match(model, options)
    adopt_borders(model.main)
    if options.bound_attention_masks and not options.enable_float_fallback:
        for each in model.graphs.values():
            bound_masks(each)
    return stored, matmul_to_fully_connected(model.main), notes


def _prepare_entries(entries: list[Entry], plan: Plan, sources: Mapping[str, Source], engine: Engine) -> None:
    """Bring further graphs into the form to quantize; calibrate those with samples."""
    for entry in entries:
        stored, moved, _ = _in_form(entry.model, plan.options, Importing(None))
        entry.link(plan.graph, stored | moved)
        source = sources.get(entry.graph.name)
        if source is None or plan.options.enable_float_fallback:
            continue
        entry_plan = entry.plan(plan.options, plan.precision)
        with Samples(_read(source, entry.model, next_values(entry.model), engine.kernels)) as kept:
            entry.calibration = calibrated(entry_plan, kept, engine)


def _measured_alike(samples: Samples, engine: Engine, plan: Plan) -> Calibration:
    """Calibrate a further graph with samples of the main one, in other shapes."""
    alike = [in_shapes(sample, plan.graph) for sample in samples.first(ALIKE)]
    return calibrated(plan, Samples(alike), engine)


def _keep_widths(graph: Graph, precision: Precision, kept: Mapping[str, DType]) -> None:
    """Set bit widths of weights that keep their encodings to those of the encodings."""
    for op in graph.ops:
        weight = op.inputs[1] if len(op.inputs) > 1 else None
        if weight is not None and weight.encoding is not None and weight.name in kept:
            precision.statics[weight.name] = kept[weight.name]
            precision.weights[op.name] = used_bits(weight.encoding) or kept[weight.name].bits


def _calibrate(plan: Plan, samples: Samples, engine: Engine) -> tuple[Plan, Calibration]:
    """Calibrate, look at the samples, and widen activations where 8 bits lose values."""
    if plan.options.enable_float_fallback:
        return plan, Calibration(samples)
    summary = SampleSummary(plan.graph, plan.model.metadata.get("layouts", {}))
    calibration = calibrated(plan, samples, engine, summary)
    faults = find_faults(plan, calibration, engine, summary)
    calibration.problems = [fault for fault in faults if fault.is_problem]
    plan = plan.noted(*summary.lines(), *map(str, faults))
    plan = widen_mixed_scales(plan, calibration)
    return widen_residual(plan, calibration), calibration


def _check(plan: Plan, importing: Importing, *, is_per_channel_asked: bool) -> Plan:
    """Refuse widths that the target lacks; note differences from the request."""
    if is_per_channel_asked:
        plan = plan.noted(*one_scale_notes(plan.parts))
    for part in plan.parts:
        plan = plan.noted(*check_ops(part.graph, part.placement, part.precision, plan.options))
    return plan.noted(*importing.conclude(plan.decision))


def _measure(
    plan: Plan,
    algorithms: list[Algorithm],
    calibration: Calibration,
    engine: Engine,
    held_out: Samples | None,
) -> tuple[Plan, list[Figure]]:
    """Choose biases and weights, and measure the outputs."""
    plan = replace(plan, reference=plan.model.clone())
    engine.report("measuring")
    plan, results = choose_correction(plan, calibration, engine)
    has_changed = any(algorithm.stage is Stage.WEIGHTS for algorithm in algorithms)
    if has_changed:
        plan = _run(algorithms, Stage.WEIGHTS, plan, calibration, engine)
    if held_out is not None and calibration.measured:  # after what is chosen by the samples of calibration
        measure_with(plan, calibration, held_out, engine)
    if has_changed or calibration.has_own_list:
        engine.report("measuring")
        results = list(measured_results(plan, calibration, engine, corrected=plan.corrects_biases))
    return plan, measure_figures(plan, calibration, results)


def _advise(
    remedies: Remedies,
    fail_below: float | None,
    phrase: Phrase,
    notify: Callable[[str], None] | None,
    *,
    tries: bool,
) -> tuple[Plan, list[str]]:
    """Note the figures of the outputs; return warnings with advice for poor ones.

    Args:
        notify: Gets the verdict before an error.
        tries: Whether options are tried for advice.
    """
    plan, figures = remedies.plan, remedies.figures
    if plan.search.rungs:
        plan = plan.noted(ladder_note(plan.search.rungs, plan.options.accuracy))
    line = judged(figures, remedies.calibration.doubt)
    try:
        check_figures(remedies, fail_below, phrase)
    except XdlcError:
        if notify is not None:
            notify(line)
        raise
    if figures:
        plan = plan.noted(figure_note(figures), kinds_note(figures), line)
    return plan, [
        *(warnings(remedies) if tries else ()),
        *goal_warnings(plan, figures),
        *stretched_warnings(plan, remedies.calibration),
    ]


def _run(
    algorithms: list[Algorithm], stage: Stage, plan: Plan, calibration: Calibration, engine: Engine
) -> Plan:
    for algorithm in algorithms:
        if algorithm.stage is stage:
            engine.report(algorithm.name)
            plan = algorithm.run(plan, calibration, engine)
    return plan
