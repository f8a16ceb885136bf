"""Lowering of a source node to a UDO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xdlc.converter.builder import Builder
from xdlc.converter.udo.binding import bind_inputs, in_layout, to_tensors, with_defaults
from xdlc.converter.udo.diagnostics import Issue, full_name, raise_issues
from xdlc.converter.udo.output_inference import Declared, InferredOutput, infer_outputs
from xdlc.converter.udo.params import parameters
from xdlc.converter.values import Value, identity
from xdlc.errors import XdlcError
from xdlc.ir import Param, Role, ScaleOffset, Tensor
from xdlc.opdefs.op_view import make_view
from xdlc.opdefs.source_match import ShapeFunction, SourceNode, Udo, attributes_named


def lower(
    builder: Builder,
    node: SourceNode,
    values: Sequence[Value | None],
    custom: Udo,
    declared: Sequence[Declared],
    shapes: Mapping[tuple[str, str], ShapeFunction],
    notices: list[str],
) -> list[Value]:
    """Append the op for a node, and return its results.

    Args:
        builder: Takes the op.
        values: Its inputs by position; None for an omitted one.
        declared: Shape and type of each output in the source.
        shapes: Shape functions by package and type.
        notices: Takes a notice for each guess, once for all nodes of a type.

    Raises:
        UnsupportedOp: If the node does not fit the definition; a ProblemList for several misfits.
    """
    definition = custom.definition
    given = _params(custom, node)
    params, issues = parameters(definition, given)
    slots, misfits = bind_inputs(definition, values, node.attributes)
    raise_issues(custom, [*issues, *misfits])
    inputs = _stored(custom, builder.node, to_tensors(builder, custom, slots), params)
    inputs, issues = with_defaults(definition, builder.node, inputs, params)
    raise_issues(custom, issues)
    view = make_view(definition, builder.node, inputs, params)
    results, issues = infer_outputs(custom, view, declared, shapes)
    raise_issues(custom, issues)
    guesses = [f"{full_name(custom)}: {result.guess}" for result in results if result.guess]
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
    _, issues = parameters(custom.definition, _params(custom, node))
    return [*issues, *bind_inputs(custom.definition, values, node.attributes)[1]]


def _params(custom: Udo, node: SourceNode) -> Mapping[str, Any]:
    """Return parameters by name: attributes, or the result of ``parse_params``."""
    if custom.hooks is None:
        return _by_parameter(node, custom.definition.params)
    try:
        return custom.hooks.parse_params(node)
    except XdlcError:
        raise
    except Exception as error:  # the user's code may raise anything
        issue = Issue(
            f"the parameters of the node cannot be read: {type(error).__name__}: {error}",
            "correct parse_params",
        )
        raise_issues(custom, [issue])
        raise


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


def _stored(
    custom: Udo, name: str, inputs: list[Tensor | None], params: Mapping[str, Param]
) -> list[Tensor | None]:
    """Return the inputs, with static ones in the plugin's storage format."""
    if custom.hooks is None:
        return inputs
    for index, data in custom.hooks.stored_inputs(make_view(custom.definition, name, inputs, params)).items():
        tensor = inputs[index]
        assert tensor is not None  # no omitted input has a format
        if not isinstance(tensor.encoding, ScaleOffset | None):
            why = f"input {index} ({tensor.name!r}) has more than one scale, and its format moves the axes"
            fix = "allow float types only at the input, or use one scale for the weight in the model"
            raise_issues(custom, [Issue(why, fix)])
        inputs[index] = Tensor(tensor.name, data.shape, tensor.dtype, tensor.encoding, data, Role.STATIC)
    return inputs


def _dims(result: InferredOutput) -> tuple[int, ...]:
    return tuple(1 if size is None else size for size in result.shape)


def _value(builder: Builder, custom: Udo, tensor: Tensor, result: InferredOutput) -> Value:
    tensor.dynamic_axes = tuple(axis for axis, size in enumerate(result.shape) if size is None)
    if result.wanted is not result.dtype:
        why = f"{full_name(custom)} outputs {result.dtype.name}, but the model has {result.wanted.name}"
        open_axes = tensor.dynamic_axes
        tensor = builder.emit("Cast", [tensor], tensor.shape, result.wanted, why=why)
        tensor.dynamic_axes = open_axes
    value = Value(tensor, result.order)
    plain = identity(value.rank)
    if value.is_dynamic and value.order != plain:  # its consumers do not rearrange dynamic dimensions
        why = f"{full_name(custom)} has another layout than the source"
        value = Value(in_layout(builder, value, plain, why), plain)
    return value
