"""Puts an op of a user's package in the place of a source node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdlc.converter.builder import Builder
from xdlc.converter.udo.binding import bound, filled, laid, lying
from xdlc.converter.udo.diagnostics import Issue, full_name, raise_issues
from xdlc.converter.udo.output_inference import Declared, Result, results
from xdlc.converter.udo.params import parameters
from xdlc.converter.values import Value, identity
from xdlc.errors import XdlcError
from xdlc.ir import Param, Role, ScaleOffset, Tensor
from xdlc.opdefs.op_view import make_view
from xdlc.opdefs.source_match import ShapeFunction, SourceNode, Udo


def place(
    builder: Builder,
    node: SourceNode,
    values: Sequence[Value | None],
    custom: Udo,
    declared: Sequence[Declared],
    shapes: Mapping[tuple[str, str], ShapeFunction],
    notices: list[str],
) -> list[Value]:
    """Append the op that stands for a node, and return its results.

    Args:
        builder: Where the op goes.
        node: The node.
        values: Its inputs by position; None for one left out.
        custom: The op.
        declared: What the source states of each output.
        shapes: Shape functions by package and type.
        notices: Takes what had to be guessed, once for all nodes of a type.

    Raises:
        UnsupportedOp: If the node does not fit the definition; a ProblemList for several misfits.
    """
    definition = custom.definition
    given = _given(custom, node)
    params, issues = parameters(definition, given)
    slots, misfits = bound(definition, values, node.attributes)
    raise_issues(custom, [*issues, *misfits])
    inputs = _stored(custom, builder.node, laid(builder, custom, slots), params)
    inputs, issues = filled(definition, builder.node, inputs, params)
    raise_issues(custom, issues)
    view = make_view(definition, builder.node, inputs, params)
    found, issues = results(custom, view, declared, shapes)
    raise_issues(custom, issues)
    guesses = [f"{full_name(custom)}: {result.guess}" for result in found if result.guess]
    notices += [text for text in guesses if text not in notices]
    made = builder.emit_many(
        definition.name,
        inputs,
        [(_extents(result), result.dtype) for result in found],
        params,
        package=definition.package,
    )
    return [_value(builder, custom, tensor, result) for tensor, result in zip(made, found, strict=True)]


def misfits(node: SourceNode, values: Sequence[Value | None], custom: Udo) -> list[Issue]:
    """Return what keeps a node from being an op, as far as its operands and attributes tell."""
    _, issues = parameters(custom.definition, _given(custom, node))
    return [*issues, *bound(custom.definition, values, node.attributes)[1]]


def _given(custom: Udo, node: SourceNode) -> Mapping[str, Any]:
    """Return the values of the parameters by name, as the node has them or as the op's object reads them."""
    if custom.hooks is None:
        return node.attributes
    try:
        return custom.hooks.parse_params(node)
    except XdlcError:
        raise
    except Exception as error:  # the user's code may raise anything
        issue = Issue(
            f"its parameters cannot be read: {type(error).__name__}: {error}", "correct parse_params"
        )
        raise_issues(custom, [issue])
        raise


def _stored(
    custom: Udo, name: str, inputs: list[Tensor | None], params: Mapping[str, Param]
) -> list[Tensor | None]:
    """Return the inputs, static ones in the form in which the op's object stores them."""
    if custom.hooks is None:
        return inputs
    for index, data in custom.hooks.stored_inputs(make_view(custom.definition, name, inputs, params)).items():
        tensor = inputs[index]
        assert tensor is not None  # forms are of inputs that are there
        if not isinstance(tensor.encoding, ScaleOffset | None):
            why = f"input {index} ({tensor.name!r}) has more than one scale, and its format moves its axes"
            fix = "let its place take float types only, or give the weight one scale in the model"
            raise_issues(custom, [Issue(why, fix)])
        inputs[index] = Tensor(tensor.name, data.shape, tensor.dtype, tensor.encoding, data, Role.STATIC)
    return inputs


def _extents(result: Result) -> tuple[int, ...]:
    return tuple(1 if extent is None else extent for extent in result.shape)


def _value(builder: Builder, custom: Udo, tensor: Tensor, result: Result) -> Value:
    tensor.dynamic_axes = tuple(axis for axis, extent in enumerate(result.shape) if extent is None)
    if result.wanted is not result.dtype:
        why = f"{full_name(custom)} gives {result.dtype.name}, the model has {result.wanted.name}"
        open_axes = tensor.dynamic_axes
        tensor = builder.emit("Cast", [tensor], tensor.shape, result.wanted, why=why)
        tensor.dynamic_axes = open_axes
    value = Value(tensor, result.order)
    plain = identity(value.rank)
    if value.is_dynamic and value.order != plain:  # what reads it rearranges no open extents
        why = f"{full_name(custom)} gives another axis order than the source"
        value = Value(lying(builder, value, plain, why), plain)
    return value
