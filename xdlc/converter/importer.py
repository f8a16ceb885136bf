"""Import of a model of any framework, node by node, with all problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

from xdlc import ir
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.registry import Handlers
from xdlc.converter.pipeline import Imported, Options, Step
from xdlc.converter.session.boundary import (
    add_input,
    add_outputs,
    check_outputs,
    fixed_inputs,
    in_words,
    input_shapes,
    with_batch_of_one,
)
from xdlc.converter.session.context import ImportContext, Source
from xdlc.converter.session.diagnostics import Diagnostics
from xdlc.converter.session.node import SourceGraph
from xdlc.converter.udo.nodes import Declarations, UdoNodes


@dataclass(frozen=True, slots=True)
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
            an encoding.
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
        diagnostics.notices.append(f"input {name!r} is fixed to {in_words(array)}: the DLC has no such input")
    model.declared.bind(shapes, fixed)
    return Imported(
        _import_graph(model, shapes, fixed, diagnostics, step),
        source.path,
        tool,
        inputs,
        graph.output_dims,
        {f"set_input {name}": in_words(array) for name, array in fixed.items()} | dict(model.arguments),
        model.encoded_io,
        source.channels,
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
