"""Pipeline of a conversion: import, passes, verification, UDOs and metadata."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from xdlc import ir, passes
from xdlc.converter.control_flow.operands import callees_first, drop_unread, transpose_outside
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.random_inputs import AS_INPUT
from xdlc.converter.operators.registry import Handlers
from xdlc.converter.session.boundary import (
    add_input,
    add_outputs,
    blame_bindings,
    check_outputs,
    fixed_inputs,
    in_words,
    input_shapes,
    open_symbols,
    with_batch_of_one,
)
from xdlc.converter.session.context import ImportContext, Source
from xdlc.converter.session.diagnostics import Diagnostics, weight_factors
from xdlc.converter.session.node import GraphInput, Labels, SourceGraph
from xdlc.converter.udo.nodes import Declarations, UdoNodes
from xdlc.errors import UsageError, XdlcError, each_problem, raise_all
from xdlc.opdefs.control_flow import remove_uncalled
from xdlc.opdefs.control_flow_rules import verify_control_flow
from xdlc.opdefs.source_match import UdoSet
from xdlc.opdefs.verify import verify_graph
from xdlc.options import spell
from xdlc.options.graphs import UNROLL_LOOPS, BoundaryOptions, words
from xdlc.records import record
from xdlc.runtime import dynamic_dims as unbound_dims
from xdlc.version import VERSION

if TYPE_CHECKING:
    from xdlc.boundary.ports import Ports
    from xdlc.opdefs.model import OpDef

_log = logging.getLogger(__name__)
Step = Callable[[str, int, int], None]
"""Progress callback: title of what is done, number of steps done, and of all (0: not known)."""


@record(frozen=True)
class Options:
    """Options of every conversion, whatever the framework.

    Attributes:
        input_dims: Shapes by input name, batch included; needed for dynamic dimensions.
        define_symbol: Values of symbolic dimensions by name.
        batch: First dimension of every input.
        set_inputs: Values by name of inputs that become constants: numbers, lists, arrays, or paths of
            ``.npy`` files.  One number fills a shape whose dimensions are all known.
        out_name: Values at which the graph ends; default: the model's outputs.
        disable_batchnorm_folding: Keep Batchnorm ops apart from the convolutions before them.
        unroll_loops: Most iterations of a loop of known length that are unrolled instead of kept as a loop,
            which no accelerator runs; 0 keeps all loops.
        random: ``as-input`` if random numbers that the source draws become inputs.
        package_name: Op package of all native operations instead of QNN's own.
        boundary: Requests for inputs and outputs, see :class:`xdlc.options.graphs.BoundaryOptions`.
        failed_passes: Passes that raised an exception in an earlier import of the model, with the exception,
            by name; they are omitted.
    """

    input_dims: Mapping[str, Sequence[int]] = field(default_factory=dict)
    define_symbol: Mapping[str, int] = field(default_factory=dict)
    batch: int | None = None
    set_inputs: Mapping[str, Any] = field(default_factory=dict)
    out_name: Sequence[str] | None = None
    disable_batchnorm_folding: bool = False
    unroll_loops: int = UNROLL_LOOPS
    random: str | None = None
    package_name: str | None = None
    boundary: BoundaryOptions = field(default_factory=BoundaryOptions)
    udos: UdoSet = field(default_factory=UdoSet)
    failed_passes: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse options that fit no model.

        Raises:
            UsageError: If one is out of range, or a UDO replaces a native operation that it does not fit.
        """
        if self.unroll_loops < 0:
            raise UsageError(
                f"{spell('unroll_loops')} must be 0 or more, but is {self.unroll_loops}",
                fix="pass a whole number, 0 or more",
            )
        if self.random not in (None, AS_INPUT):
            raise UsageError(f"random is {self.random!r}", fix=f"omit the option, or use {AS_INPUT!r}")
        if self.package_name is not None:
            from xdlc.converter.udo.native_ops import check_package_name

            check_package_name(self.package_name)
        if self.boundary:
            from xdlc.boundary.ports import requests

            requests(self.boundary)
        if self.udos.ops:
            from xdlc.converter.udo.native_ops import check_replacements

            check_replacements(self.udos)

    def arguments(self, own: Mapping[str, str]) -> dict[str, str]:
        """Return the options that differ from their defaults, as texts."""
        options = {
            "batch": self.batch,
            "out_name": ",".join(self.out_name) if self.out_name else None,
            "unroll_loops": self.unroll_loops if self.unroll_loops != UNROLL_LOOPS else None,
            "random": self.random,
            "disable_batchnorm_folding": "true" if self.disable_batchnorm_folding else None,
            "package_name": self.package_name,
        }
        shapes = {f"input_dim {name}": ",".join(map(str, dims)) for name, dims in self.input_dims.items()}
        symbols = {f"define_symbol {name}": str(value) for name, value in self.define_symbol.items()}
        return {**shapes, **symbols, **own, **(words(self.boundary) if self.boundary else {})} | {
            name: str(value) for name, value in options.items() if value is not None
        }


@record(frozen=True)
class SourceModel:
    """A model file in the form that a framework's reader returns.

    Attributes:
        source: The file as errors name it.
        options: Options of the conversion, with the names that the graph has for inputs and outputs.
        nbytes: Returns its size, in proportion to which constants are folded.
        declared: Types that it states of its values.
        notices: What the user should know of the reading.
        arguments: Options of the framework alone that differ from their defaults, for the history.
        encoded_io: Whether the inputs and outputs that become fixed point are those that are integers with
            an encoding, not those that the source rounds or restores.
        batch_of_one: Whether an open first dimension is 1 unless options state shapes.
    """

    source: Source
    graph: SourceGraph
    handlers: Handlers
    options: Options
    nbytes: Callable[[], int] = int
    declared: Declarations = field(default_factory=Declarations)
    notices: Sequence[str] = ()
    arguments: Mapping[str, str] = field(default_factory=dict)
    encoded_io: bool = False
    batch_of_one: bool = False


@record(frozen=True)
class Imported:
    """An imported model and its source.

    Attributes:
        model: The graphs of the model.
        tool: Name of the tool that the history records.
        inputs: The inputs that the source declares, without constants.
        arguments: Options of this framework alone that differ from their defaults, for the history.
    """

    model: ir.Model
    source: SourceModel
    tool: str
    inputs: Sequence[GraphInput]
    arguments: Mapping[str, str]

    @property
    def path(self) -> str:
        """The file as errors name it."""
        return self.source.source.path

    def labels(self) -> dict[str, Labels]:
        """Return the dimensions that the source states of its inputs and outputs, by name."""
        inputs = {entry.name: entry.dims for entry in self.inputs if entry.dims is not None}
        return inputs | dict(self.source.graph.output_dims)


def import_model(
    model: SourceModel, tool: str, diagnostics: Diagnostics, step: Step | None = None
) -> Imported:
    """Return the IR of a model, or of its parts that could be imported.

    Args:
        tool: Name of the tool that the history records.
        diagnostics: Collects the problems, all of them, and the nodes.

    Raises:
        UsageError: If options do not fit the inputs.
        ModelError: If the model is not a graph: two nodes produce a value, or one needs its own result.
    """
    graph, source, options = model.graph, model.source, model.options
    diagnostics.notices += model.notices
    inputs = [
        entry for entry in graph.inputs if entry.name not in graph.constants and entry.dtype is not None
    ]
    if model.batch_of_one and options.batch is None and not options.input_dims:
        inputs = with_batch_of_one(inputs, diagnostics.notices)
    shapes = input_shapes(
        inputs,
        source.path,
        input_dims=options.input_dims,
        symbols=options.define_symbol,
        batch=options.batch,
        fixed=options.set_inputs,
    )
    fixed = _fixed(graph, shapes, options, source.path)
    for name, array in fixed.items():
        diagnostics.notices.append(
            f"input {name!r} is now the constant {in_words(array)}: the DLC has no such input"
        )
    model.declared.bind(shapes, fixed)
    return Imported(
        _import_graph(model, shapes, fixed, diagnostics, step),
        model,
        tool,
        inputs,
        {f"set_input {name}": in_words(array) for name, array in fixed.items()} | dict(model.arguments),
    )


def _fixed(
    graph: SourceGraph, shapes: Mapping[str, Sequence[int | None]], options: Options, where: str
) -> dict[str, Any]:
    """Return the values of the inputs that options fix, by name."""
    if not options.set_inputs:
        return {}
    dtypes = {entry.name: None if entry.dtype is None else entry.dtype.numpy for entry in graph.inputs}
    stored = {name: graph.constants[name].shape for name in dtypes.keys() & graph.constants.keys()}
    return fixed_inputs(dtypes, {**stored, **shapes}, options.set_inputs, where)


def _import_graph(
    model: SourceModel,
    shapes: Mapping[str, Sequence[int | None]],
    fixed: Mapping[str, Any],
    diagnostics: Diagnostics,
    step: Step | None,
) -> ir.Model:
    """Return the main graph and its sub-graphs."""
    graph, options, handlers = model.graph, model.options, model.handlers
    context = ImportContext(model.source, diagnostics)
    types = chain(((node.domain, node.type) for node in graph.all_nodes()), handlers.inner_types())
    udos = UdoNodes(context, options.udos, handlers.is_native, model.declared, types, handlers.is_optional)
    operators = Operators(
        context,
        model.nbytes,
        unroll_loops=options.unroll_loops,
        random_inputs=options.random is not None,
        handlers=handlers,
        override=udos,
        inferred=model.declared.inferred,
    )
    outputs = options.out_name or [*graph.outputs, *(state.written for state in graph.states)]
    ends = [graph.aliases.get(name, name) for name in outputs]
    nodes = operators.ordered(graph, ends)
    operators.read = {*ends, *chain.from_iterable(node.all_reads() for node in nodes)}
    diagnostics.problems += dict.fromkeys(graph.problems.values())
    context.frame.unresolved.update(graph.problems)
    for name in graph.constants:
        if name in operators.read and name not in fixed:
            context.bind_constant(name, partial(graph.constants.__getitem__, name))
    for name, array in fixed.items():
        context.bind_constant(name, partial(ir.ArrayData, array))
    for entry in graph.inputs:
        if entry.dtype is not None and entry.name not in graph.constants and entry.name not in fixed:
            add_input(context, entry.name, shapes[entry.name], entry.dtype)
    for number, node in enumerate(nodes, 1):
        operators.import_node(node)
        if step is not None:
            step("importing", number, len(nodes))
    diagnostics.notices += udos.contradictions()
    for state in graph.states:
        if state.read in fixed or state.written not in ends:
            continue
        diagnostics.states[state.read] = {"output": state.written, "initial": state.initial}
        diagnostics.notices.append(
            f"variable {state.name!r}: output {state.written!r} is the next value of input {state.read!r}"
        )
    check_outputs(context, ends, [name for node in graph.nodes for name in node.outputs if name])
    needed, final = set(map(id, nodes)), set(ends)
    for node in graph.nodes:
        inner = [each for inside in node.graphs() for each in inside.all_nodes()]
        diagnostics.note_node(context.frame, final, node, id(node) in needed, inner)
    add_outputs(context, ends)
    others = {other: context.values.get(name) for other, name in graph.aliases.items()}
    diagnostics.note_values({**context.values, **others})
    return ir.Model(context.graphs)


def finish(
    imported: Imported,
    diagnostics: Diagnostics,
    *,
    collects: bool = False,
    notify: Callable[[str], None] | None = None,
    step: Step | None = None,
) -> ir.Model:
    """Return the converted model: optimized, verified, with trace and history.

    Args:
        collects: Whether problems are collected instead of raised; the result holds what could be converted.
        notify: Called with each notice; default: the log.  Not if problems are collected.

    Raises:
        XdlcError: Every problem found; several make a ProblemList.
    """
    model, options = imported.model, imported.source.options
    if step is not None:
        step("optimizing", 0, 0)
    if options.input_dims or options.define_symbol or options.batch is not None:
        diagnostics.problems = blame_bindings(diagnostics.problems, imported.inputs, options.input_dims)
    if not collects:
        raise_all(diagnostics.problems, where=imported.path)
    elif diagnostics.problems:
        _keep_unread(model.main)
    for failure in options.failed_passes.values():
        diagnostics.notices.append(f"{failure}: xdlc converts the model without it; please report this bug")
    requests = _apply_boundary(imported, diagnostics) if options.boundary else {}
    removed = _optimized(model, options, imported.source.encoded_io)
    if requests and not diagnostics.problems:
        from xdlc.boundary.applying import settle

        settle(model, requests)
    runs_graphs = len(model.graphs) > 1
    if not diagnostics.problems and runs_graphs:
        drop_unread(model)
    if not diagnostics.problems and _has_dynamic_dims(model):
        from xdlc.converter import dynamic_dims

        dynamic_dims.resolve(model)
    for graph in model.graphs.values():
        graph.verify()
        diagnostics.problems += verify_graph(graph)
    if runs_graphs:
        diagnostics.problems += verify_control_flow(model.graphs)
    if options.udos.ops or options.udos.collections:
        _add_udos(model, options.udos, diagnostics)
    if not collects:
        raise_all(diagnostics.problems, where=imported.path)
    _add_metadata(imported, diagnostics, removed)
    for notice in () if collects else diagnostics.notices:
        (notify or _log.warning)(notice)
    return model


def _apply_boundary(imported: Imported, diagnostics: Diagnostics) -> Ports:
    """Add ops for callers around the main graph; return the requests."""
    from xdlc.boundary.applying import apply
    from xdlc.boundary.ports import requested

    model = imported.model
    requests = requested(model, imported.source.options.boundary, diagnostics.notices.append)
    if requests and not diagnostics.problems:
        _add_notes(model, diagnostics)
        model.metadata["symbols"] = imported.labels()
        passes.run(model.main, [passes.find("reinterpret_io")] if imported.source.encoded_io else [])
        apply(model, requests, diagnostics.notices.append, assumed=imported.source.source.channels)
    return requests


def _add_notes(model: ir.Model, found: Diagnostics) -> None:
    """Add the source's facts about inputs and outputs to the metadata."""
    notes = {"layouts": found.layouts, "states": found.states}
    model.metadata |= {key: held for key, held in notes.items() if held}


def _optimized(model: ir.Model, options: Options, encoded_io: bool) -> dict[str, str]:
    """Run the passes; return the pass that removed a node's last op, by node."""
    removed: dict[str, str] = {}
    skipped = {*options.failed_passes, *(["fold_batchnorm"] if options.disable_batchnorm_folding else ())}
    converting, storing = (
        [entry for entry in passes.stage(name) if entry.name not in skipped]
        for name in ("converter", "storage")
    )
    udos = _backend_forms(options.udos) if options.udos.ops else {}
    chosen = _with_options(converting, udos=udos)
    inner = _with_options(converting, udos=udos, io=False)
    main = [passes.find("reinterpret_io"), *inner] if encoded_io else chosen
    runs_graphs = len(model.graphs) > 1
    for graph in callees_first(model.graphs) if runs_graphs else [model.main]:
        if runs_graphs:
            transpose_outside(graph, model.graphs)
        passes.run(graph, main if graph is model.main else inner, removed=removed)
        passes.run(graph, storing)
    if runs_graphs:
        remove_uncalled(model)
    return removed


def _backend_forms(udos: UdoSet) -> dict[tuple[str, str], list[OpDef]]:
    from xdlc.converter.udo.definitions import backend_forms

    return backend_forms(udos)


def _has_dynamic_dims(model: ir.Model) -> bool:
    return any(map(attrgetter("dynamic_axes"), model.main.tensors.values()))


def _with_options(entries: Sequence[passes.Pass], **options: Any) -> list[passes.Pass]:
    """Return passes with options set for ``fold_quantize_dequantize``."""
    name = "fold_quantize_dequantize"
    return [entry.with_options(**options) if entry.name == name else entry for entry in entries]


def _keep_unread(graph: ir.Graph) -> None:
    """Make unread results outputs, so that the passes keep them."""
    for op in list(graph.ops):
        for tensor in op.outputs:
            if not graph.consumers(tensor) and not graph.is_output(tensor):
                graph.add_output(tensor)


def _add_udos(model: ir.Model, udos: UdoSet, diagnostics: Diagnostics) -> None:
    """Replace native ops by UDOs, check UDOs, store definitions and kernels."""
    from xdlc.converter.udo.definitions import add_kernel_files, store_definitions
    from xdlc.converter.udo.diagnostics import broken_rules, notices
    from xdlc.converter.udo.native_ops import replace_native

    replacing, misfits = replace_native(model, udos)
    diagnostics.problems += misfits
    diagnostics.problems += broken_rules(model, udos)
    diagnostics.notices += notices(model, udos, [*diagnostics.used, *replacing])
    if diagnostics.problems:
        return
    try:
        store_definitions(model, udos)
        add_kernel_files(model, udos)
    except XdlcError as error:
        diagnostics.problems += each_problem(error)


def _add_metadata(imported: Imported, diagnostics: Diagnostics, removed: Mapping[str, str]) -> None:
    """Add the trace, the layouts, symbols and names of the source, and the history."""
    model, options = imported.model, imported.source.options
    diagnostics.finalize(list(model.graphs.values()), removed)
    model.metadata["nodes"] = [[node.name, node.type, node.reason] for node in diagnostics.nodes]
    modules = {node.name: node.module for node in diagnostics.nodes if node.module is not None}
    if modules:
        model.metadata["modules"] = modules
    _add_notes(model, diagnostics)
    stated = model.metadata.pop("symbols", None) or imported.labels()
    if _has_dynamic_dims(model):
        symbols = open_symbols(stated, model.main)
        if symbols:
            model.metadata["symbols"] = symbols
        unbound = unbound_dims.notice(model)
        if unbound is not None:
            diagnostics.notices.append(unbound)
    names = diagnostics.other_names(model.main)
    for inner, inputs in model.metadata.get("tensors", {}).get(model.main.name, {}).items():
        if inputs:  # an input whose numbers callers have in another form
            names |= {inner: names.pop(inputs[0], inputs), inputs[0]: []}
    if names:
        model.metadata["tensors"] = {model.main.name: names}
    factors = weight_factors(model.main, diagnostics.statics)
    if factors:
        model.metadata["weight_factors"] = {model.main.name: factors}
    if options.package_name is not None:
        from xdlc.converter.udo.native_ops import rename_package

        rename_package(model, options.package_name, diagnostics.notices)
    name = os.fsencode(os.path.basename(imported.path)).decode("utf-8", "replace")
    args = {"input_network": name, **options.arguments(imported.arguments)}
    model.metadata["history"] = [{"tool": imported.tool, "converterVersion": VERSION, "args": args}]
