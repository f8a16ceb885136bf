"""Lowering of a source node to a UDO."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from xdlc.converter.builder import Builder
from xdlc.converter.udo.binding import bind_inputs, in_layout, to_tensors, with_defaults
from xdlc.converter.udo.diagnostics import raise_issues
from xdlc.converter.udo.output_inference import InferredOutput, infer_outputs
from xdlc.converter.values import Spec, Value, identity
from xdlc.ir import Param, Tensor
from xdlc.opdefs.op_params import Issue, parameters
from xdlc.opdefs.op_view import make_view
from xdlc.opdefs.source_match import Declared, ShapeFunction, SourceNode, Udo, attributes_named


def lower(
    builder: Builder,
    node: SourceNode,
    values: Sequence[Value | None],
    custom: Udo,
    declared: Sequence[Declared],
    shapes: Mapping[tuple[str, str], ShapeFunction],
    inferred: Callable[[], Mapping[str, Spec]],
    notices: list[str],
) -> list[Value]:
    """Append the op for a node, and return its results.

    Args:
        builder: Takes the op.
        values: Its inputs by position; None for an omitted one.
        declared: Shape and type of each output in the source.
        shapes: Shape functions by package and type.
        inferred: Returns shapes that the source's own inference finds, by name.
        notices: Takes a notice for each guess, once for all nodes of a type.

    Raises:
        UnsupportedOp: If the node does not fit the definition; a ProblemList for several misfits.
    """
    definition = custom.definition
    params, issues = _params(custom, node)
    slots, misfits = bind_inputs(definition, values, node.attributes)
    raise_issues(custom, [*issues, *misfits])
    inputs, issues = with_defaults(definition, builder.node, to_tensors(builder, custom, slots), params)
    raise_issues(custom, issues)
    view = make_view(definition, builder.node, inputs, params)
    results, issues = infer_outputs(custom, view, declared, shapes, inferred)
    raise_issues(custom, issues)
    guesses = [f"{custom.full_name}: {result.guess}" for result in results if result.guess]
    notices += [text for text in guesses if text not in notices]
    tensors = builder.emit_many(
        definition.name,
        inputs,
        [(_dims(result), result.dtype) for result in results],
        params,
        package=definition.package,
    )
    return [_value(builder, custom, tensor, result) for tensor, result in zip(tensors, results, strict=True)]


def misfits(node: SourceNode, values: Sequence[Value | None], custom: Udo) -> list[Issue]:
    """Return why the operands and attributes of a node do not fit an op."""
    _, issues = _params(custom, node)
    return [*issues, *bind_inputs(custom.definition, values, node.attributes)[1]]


def _params(custom: Udo, node: SourceNode) -> tuple[dict[str, Param], list[Issue]]:
    """Return the parameters of a node, of its attributes or by ``parse_params``."""
    if custom.parse_params is not None:
        return custom.parse_params(node), []
    return parameters(custom.definition, _by_parameter(node, custom.definition.params))


def _by_parameter(node: SourceNode, parameters: Iterable[str]) -> dict[str, Any]:
    """Return a node's attributes; a unique match is renamed to the parameter.

    Those without meaning at inference that no parameter denotes are omitted.
    """
    names: dict[str, str] = {}
    for parameter in parameters:
        found = attributes_named(parameter, node.attributes)
        if len(found) == 1:
            names.setdefault(found[0], parameter)
    return {
        names.get(name, name): value
        for name, value in node.attributes.items()
        if name in names or name not in node.optional
    }


def _dims(result: InferredOutput) -> tuple[int, ...]:
    return tuple(1 if size is None else size for size in result.shape)


def _value(builder: Builder, custom: Udo, tensor: Tensor, result: InferredOutput) -> Value:
    tensor.dynamic_axes = tuple(axis for axis, size in enumerate(result.shape) if size is None)
    if result.wanted is not result.dtype:
        why = f"{custom.full_name} outputs {result.dtype.name}, but the model has {result.wanted.name}"
        open_axes = tensor.dynamic_axes
        tensor = builder.emit("Cast", [tensor], tensor.shape, result.wanted, why=why)
        tensor.dynamic_axes = open_axes
    value = Value(tensor, result.order)
    plain = identity(value.rank)
    if value.is_dynamic and value.order != plain:  # its consumers do not rearrange dynamic dimensions
        why = f"{custom.full_name} has another layout than the source"
        value = Value(in_layout(builder, value, plain, why), plain)
    return value
