"""Attributes of a source node as parameters of an op, by its definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdlc.converter.custom.issues import Issue
from xdlc.converter.custom.scalars import scalar
from xdlc.converter.custom.tensors import tensor
from xdlc.errors import nearest_names
from xdlc.ir import Param, Tensor, TensorData
from xdlc.ir.dtype import STRING
from xdlc.opdefs.defaults import default_value
from xdlc.opdefs.model import OpDef, ParamDef, order_of

_GIVEN = "correct the model, or the parameter in the definition"
_NAMES = "state the names of its values as Enumeration (xdlc_enumeration in JSON), or make it a STRING"
_DEFAULT = "correct the default in the definition"
_NO_VALUE = "a graph, or a list of tensors, which no parameter holds"


def parameters(definition: OpDef, given: Mapping[str, Any]) -> tuple[dict[str, Param], list[Issue]]:
    """Return the parameters that values by name come to, defaults written out, and what does not fit.

    Args:
        definition: The op.
        given: Values by name: int, float, bool, str, lists of them, arrays or ``TensorData``.
    """
    issues = [_unknown(definition, *item) for item in given.items() if item[0] not in definition.params]
    found: dict[str, Param] = {}
    for name, param in definition.params.items():
        is_given = _is_given(param, given)
        try:
            value = given[name] if is_given else default_value(param)
            if value is not None:
                made = _param(param, value)
                found[name] = _laid(param, made) if is_given else made
            elif param.mandatory:
                issues.append(_missing(definition, name))
        except ValueError as error:
            place = f"attribute {name!r}" if is_given else f"the default of parameter {name!r}"
            issues.append(Issue(f"{place} is {error}", _fix(param, value) if is_given else _DEFAULT))
    return found, issues


def _laid(param: ParamDef, made: Param) -> Param:
    """Return a parameter of the source in the layout that the definition states; defaults are in it."""
    if not isinstance(made, Tensor) or made.data is None:
        return made
    data = made.data.transpose(order_of(param.layout, made.rank))
    return Tensor(made.name, data.shape, made.dtype, data=data, role=made.role)


def _is_given(param: ParamDef, given: Mapping[str, Any]) -> bool:
    """Return whether a value is there; exporters write lists without elements for what is left out."""
    value = given.get(param.name)
    is_empty = isinstance(value, list) and not value and not param.mandatory and param.default is None
    return value is not None and not is_empty


def _param(param: ParamDef, value: Any) -> Param:
    """Return a value as a parameter.

    Raises:
        ValueError: If it has no such form.
    """
    if _has_no_form(value):
        raise ValueError(_NO_VALUE)
    if hasattr(value, "shape") and (param.is_scalar or not value.shape) and _is_single(value):
        array = value.numpy() if isinstance(value, TensorData) else value
        value = array.reshape(()).item()
    if param.is_scalar or (isinstance(value, str) and STRING in param.dtypes):
        return scalar(param, value)
    return tensor(param, value)


def _fix(param: ParamDef, value: Any) -> str:
    return _NAMES if isinstance(value, str) and param.is_scalar and not param.enumeration else _GIVEN


def _is_single(value: Any) -> bool:
    return tuple(value.shape) in ((), (1,))


def _has_no_form(value: Any) -> bool:
    return hasattr(value, "node") or hasattr(value, "data_location")


def _unknown(definition: OpDef, name: str, value: Any) -> Issue:
    if _has_no_form(value):
        return Issue(f"attribute {name!r} is {_NO_VALUE}", "rewrite the node without it: make tensors inputs")
    if any(entry.name == name for entry in definition.inputs):
        return Issue(
            f"attribute {name!r} is an input in the definition",
            f"make {name!r} a parameter of the definition: the model has it as an attribute",
        )
    near = nearest_names(name, definition.params)
    listed = ", ".join(definition.params) or "none"
    return Issue(
        f"attribute {name!r} is none of the parameters: {listed}{f'; {near}' if near else ''}",
        f"add the parameter {name!r} to the definition, or take the attribute out of the model",
    )


def _missing(definition: OpDef, name: str) -> Issue:
    return Issue(
        f"the node has no attribute {name!r}, a mandatory parameter",
        f"set it in the model, or give parameter {name!r} a default and make it optional",
    )
