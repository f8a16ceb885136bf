"""Debugger: the first op that two engines compute in different ways."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from xdlc.api.models import executable, load, loaded
from xdlc.api.verbs import Array, verb
from xdlc.errors import BackendError, UsageError
from xdlc.ir import Model
from xdlc.opdefs.control_flow import outer_graphs
from xdlc.options import DEFAULT_SOC, PathLike, spell
from xdlc.options.running import MEMORY, SAMPLES, DebugOptions

if TYPE_CHECKING:
    from xdlc.compare.engines import Engine, Values
    from xdlc.compare.first_wrong import Row
    from xdlc.debug.report import DebugReport


@verb
def debug(
    model: Model | PathLike,
    samples: Iterable[Mapping[str, Array] | Array] | PathLike,
    **options: Unpack[DebugOptions],
) -> DebugReport:
    """Compare two engines tensor by tensor, and return a report.

    Args:
        model: The model, or the path of a DLC.
        samples: Samples of the inputs, in any format that ``quantize`` reads.
        **options: The engines, and the limits for a wrong op.

    Returns:
        The report.  ``rows`` has the figures of each tensor, with SQNR in dB; ``first_wrong`` is the row of
        the first wrong op, or None.

    Raises:
        UsageError: If xdlc does not know an engine, or an engine is not installed or does not fit the model.
        BackendError: If an engine fails.
        ContainerError: If a DLC is damaged.
        StorageError: If a file cannot be read.
    """
    from xdlc.compare.engines import HtpEngine, computed
    from xdlc.compare.first_wrong import compare, wrong_together
    from xdlc.debug.report import DebugReport
    from xdlc.quant.samples import read_samples
    from xdlc.runtime.states import next_values

    whole = executable(loaded(model), None if isinstance(model, Model) else os.fspath(model))
    source = whole.with_main(options.get("graph"))
    graph = source.main
    notify, others = options.get("notify"), outer_graphs(whole)[1:]
    if others and notify is not None and options.get("graph") is None:
        listed = ", ".join(other.name for other in others)
        notify(f"xdlc compares graph {graph.name!r}; {spell('graph')} chooses another graph: {listed}")
    named = read_samples(samples, graph, optional=next_values(source))
    most = options.get("samples_most", SAMPLES)
    stored = None if isinstance(samples, str | os.PathLike) else list(islice(named, most))

    def each() -> Iterator[Values]:
        return islice(iter(named if stored is None else stored), most)

    first = next(each(), None)
    if first is None:
        raise UsageError("the list of samples is empty", fix="add at least one sample", code="XD205")
    reference, candidate = _chosen(source, options)
    with ExitStack() as stack:
        engines = []
        for text in (reference, candidate):
            engine = engine_of(text, source, first, options)
            if hasattr(engine, "close"):
                stack.callback(engine.close)
            engines.append(engine)
        _check_effects(options, engines[1], (reference, candidate))
        try:
            rows = compare(
                engines[0],
                engines[1],
                getattr(engines[1], "model", source),
                each,
                least=options.get("least"),
                metric=_metric(options.get("metric")),
                memory=options.get("memory", MEMORY) << 20,
            )
        except BackendError as error:
            _reproduce(engines[0], engines[1], first, options, error)
            raise
        if not rows:
            raise UsageError(
                "the two engines have no tensor in common",
                where=f"{engines[0].title}, {engines[1].title}",
                fix="compare two engines of the same network",
            )
        outputs = tuple(tensor.name for tensor in graph.outputs)
        if isinstance(engines[1], HtpEngine) and not any(row.is_wrong for row in rows):
            joined = wrong_together(engines[0], engines[1], rows, outputs, first)
            rows = [joined if joined and joined.tensor == row.tensor else row for row in rows]
        _reproduce(engines[0], engines[1], first, options, rows)
        count = sum(1 for _ in each())
        missing = len(set(computed(graph)) - {row.tensor for row in rows})
        return DebugReport(engines[0].title, engines[1].title, count, tuple(rows), outputs, missing)


def _check_effects(options: DebugOptions, candidate: Engine, names: Sequence[str]) -> None:
    """Refuse options that have no effect on the engines."""
    from xdlc.compare.engines import HostEngine, HtpEngine

    needs = {
        "soc": ("htp" in names, "name the engine htp instead of htp:SOC"),
        "weights": (any(map(_is_caffe, names)), "compare with a Caffe net"),
        "noise": (
            "reproducer" in options and isinstance(candidate, HtpEngine),
            f"judge htp, and add {spell('reproducer')}",
        ),
        "reproducer": (isinstance(candidate, HostEngine | HtpEngine), "judge cpu, float, htp or a DLC"),
    }
    for option, (has_effect, fix) in needs.items():
        if options.get(option) and not has_effect:
            raise UsageError(f"{spell(option)} has no effect", fix=f"{fix}, or omit the option")


def _reproduce(
    reference: Engine,
    engine: Engine,
    feeds: Values,
    options: DebugOptions,
    fault: Sequence[Row] | BackendError,
) -> None:
    """Write the smallest part of the candidate's model with its fault, if requested.

    Args:
        reference: The engine that counts as right.
        engine: The engine that is judged.
        feeds: The sample that shows the fault.
        options: The options of the caller.
        fault: What the comparison has returned or raised.
    """
    from xdlc.compare.engines import HostEngine, HtpEngine
    from xdlc.compare.first_wrong import first_wrong, segments
    from xdlc.debug import reproducer

    folder, notify = options.get("reproducer"), options.get("notify") or (lambda _: None)
    if folder is None:
        return
    assert isinstance(engine, HostEngine | HtpEngine)
    model = engine.model
    host = HostEngine(model)

    def feeds_of(names: Sequence[str], source: Engine = host) -> dict[str, Array]:
        inner = [name for name in names if name not in feeds]
        return {name: feeds[name] for name in names if name in feeds} | source.values(feeds, inner)

    row = None if isinstance(fault, BackendError) else first_wrong(fault)
    expected: dict[str, Array] = {}
    if isinstance(engine, HtpEngine) and (row is not None or isinstance(fault, BackendError)):
        part: Model | None = None
        if isinstance(fault, BackendError):
            shows = reproducer.fails(engine.soc, feeds_of, fault)
        else:
            assert row is not None
            shows = reproducer.differs(engine.soc, feeds_of, row.least)
            part = reproducer.part_of(model, [op for op in model.main.ops if op.name == row.op])
        if part is None or not shows(part, reproducer.WHOLE):
            smallest = reproducer.reduced(model, shows)
            if smallest is None:
                notify("xdlc writes no reproducer: only the graph with more outputs shows the fault")
                return
            part = smallest.model
        if options.get("noise"):
            noisy = reproducer.with_noise(part)
            if shows(noisy, reproducer.WHOLE):
                part = noisy
            else:
                notify("the reproducer keeps the network's weights, because random weights hide the fault")
        inputs, name = feeds_of([tensor.name for tensor in part.main.inputs]), f"htp:{engine.soc}"
    elif isinstance(engine, HostEngine) and row is not None and not isinstance(fault, BackendError):
        parts = segments(model.main, {member.tensor for member in fault})
        segment = next(part for part in parts if part.tensor.name == row.tensor)
        part = reproducer.part_of(model, segment.ops)
        values = feeds_of([*segment.inputs, row.tensor], reference)
        expected = {row.tensor: values.pop(row.tensor)}
        inputs, name = values, "cpu" if engine.quantized else "float"
    else:
        notify("xdlc writes no reproducer, because no op is wrong")
        return
    paths = reproducer.write(part, Path(folder), inputs, name, expected)
    notify(f"xdlc wrote {len(part.main)} op(s) that show the fault to {paths[0].parent}")


def _chosen(model: Model, options: DebugOptions) -> tuple[str, str]:
    """Return the engines in words; omitted ones follow from the model and the SoC."""
    reference, candidate, soc = (options.get(name) for name in ("reference", "candidate", "soc"))
    candidate = os.fspath(candidate) if candidate else ("htp" if soc else "cpu")  # type: ignore[call-overload]
    if reference:
        return os.fspath(reference), candidate  # type: ignore[call-overload]
    if candidate != "cpu":
        return "cpu", candidate
    if any(tensor.dtype.is_fixed for tensor in model.main.tensors.values()):
        return "float", candidate
    fix = f"name the source model by {spell('reference')}, or a SoC by {spell('soc')}"
    raise UsageError("xdlc needs a second engine to compare with a float DLC", fix=fix)


def engine_of(text: str, model: Model, feeds: Values, options: DebugOptions) -> Engine:
    """Return the engine that a text names.

    Raises:
        UsageError: If it names none.
    """
    from xdlc.compare.engines import HostEngine, HtpEngine
    from xdlc.debug.frameworks import FRAMEWORKS
    from xdlc.debug.reproducer import RawResults
    from xdlc.debug.source import SourceEngine

    kind, _, rest = text.partition(":")
    weights = os.fspath(options.get("weights") or "")
    if text in ("cpu", "float"):
        return HostEngine(model, quantized=text == "cpu")
    if kind == "htp":
        return HtpEngine(model, rest or options.get("soc") or DEFAULT_SOC)
    if kind in FRAMEWORKS.all():
        return SourceEngine(kind, rest, model, feeds, weights)
    if not os.path.exists(text):
        fix = (
            f"name a file, a folder, cpu, float, htp:SOC, or FILE after {', '.join(sorted(FRAMEWORKS.all()))}"
        )
        raise UsageError(f"{text!r} is not an engine", fix=fix)
    framework = framework_of(text)
    if framework is not None:
        return SourceEngine(framework, text, model, feeds, weights)
    if os.path.isdir(text):
        return RawResults(text, model)
    other = executable(load(text), text)
    name = options.get("graph")
    engine = HostEngine(other.with_main(name if name in other.graphs else None))
    engine.title = f"host ({os.path.basename(text)})"
    own, shapes = model.main.tensors, engine.model.main.tensors
    engine.names = [name for name in engine.names if name in own and own[name].shape == shapes[name].shape]
    return engine


def framework_of(path: str) -> str | None:
    """Return the framework of a source model by its content; None for another file."""
    from xdlc.converter import formats

    names = {
        formats.ONNX: "onnx",
        formats.TFLITE: "tflite",
        formats.TORCH_EXPORT: "pytorch",
        formats.KERAS: "tensorflow",
        formats.SAVED_MODEL: "tensorflow",
        formats.GRAPH_DEF: "tensorflow",
        formats.CAFFE: "caffe",
    }
    source_format = formats.recognize(path)
    return None if source_format is None else names.get(source_format)


def _is_caffe(engine: str) -> bool:
    return engine.startswith("caffe:") or (os.path.isfile(engine) and framework_of(engine) == "caffe")


def _metric(metric: Callable[..., Any] | str | None) -> Callable[..., float] | None:
    """Return the user's metric of two arrays."""
    if metric is None:
        return None
    from xdlc.quant.engine import checked

    return checked(metric, "metric", may_be_nan=True)
