"""All parameters of an op: given values, defaults, and what does not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from xdlc.errors import nearest_names
from xdlc.ir import Param, Tensor
from xdlc.opdefs import values
from xdlc.opdefs.defaults import default_value
from xdlc.opdefs.model import OpDef, ParamDef, order_of
from xdlc.opdefs.source_match import attributes_named

_GIVEN = "correct the model, or the parameter in the definition"
_NAMES = "state the names of its values as Enumeration (xdlc_enumeration in JSON), or make it a STRING"
_DEFAULT = "correct the default in the definition"


class Issue(NamedTuple):
    """A misfit of a node and its definition."""

    text: str
    fix: str


def parameters(definition: OpDef, attributes: Mapping[str, Any]) -> tuple[dict[str, Param], list[Issue]]:
    """Return the parameters of an op including defaults, and the misfits.

    Args:
        attributes: Values by name, as ``values.parameter`` accepts them.
    """
    issues = [_unknown(definition, *item) for item in attributes.items() if item[0] not in definition.params]
    params: dict[str, Param] = {}
    for name, param in definition.params.items():
        is_given = _is_given(param, attributes)
        try:
            value = attributes[name] if is_given else default_value(param)
            if value is not None:
                coerced = values.parameter(param, value)
                params[name] = _in_layout(param, coerced) if is_given else coerced
            elif param.mandatory:
                issues.append(_missing(name, attributes_named(name, attributes)))
        except ValueError as error:
            place = f"attribute {name!r}" if is_given else f"the default of parameter {name!r}"
            issues.append(Issue(f"{place} is {error}", _fix(param, value) if is_given else _DEFAULT))
    return params, issues


def _in_layout(param: ParamDef, coerced: Param) -> Param:
    """Return a source's parameter in the layout of the definition."""
    if not isinstance(coerced, Tensor) or coerced.data is None:
        return coerced
    data = coerced.data.transpose(order_of(param.layout, coerced.rank))
    return Tensor(coerced.name, data.shape, coerced.dtype, data=data, role=coerced.role)


def _is_given(param: ParamDef, attributes: Mapping[str, Any]) -> bool:
    """Return whether a value is set; exporters write [] for omitted values."""
    value = attributes.get(param.name)
    is_empty = isinstance(value, list) and not value and not param.mandatory and param.default is None
    return value is not None and not is_empty


def _fix(param: ParamDef, value: Any) -> str:
    return _NAMES if isinstance(value, str) and param.is_scalar and not param.enumeration else _GIVEN


def _unknown(definition: OpDef, name: str, value: Any) -> Issue:
    if not values.has_form(value):
        return Issue(
            f"attribute {name!r} is {values.NO_FORM}", "rewrite the node without it: make tensors inputs"
        )
    if any(entry.name == name for entry in definition.inputs):
        return Issue(
            f"attribute {name!r} is an input in the definition",
            f"make {name!r} a parameter of the definition: the model has it as an attribute",
        )
    end = name.rpartition(".")[2]
    near = nearest_names(end, definition.params)
    listed = ", ".join(definition.params) or "none"
    return Issue(
        f"attribute {name!r} is not a parameter; parameters: {listed}{f'; {near}' if near else ''}",
        f"add the parameter {end!r} to the definition, or remove the attribute from the model",
    )


def _missing(name: str, paths: Sequence[str]) -> Issue:
    if paths:
        return Issue(
            f"parameter {name!r} may be {' or '.join(paths)}",
            f"name the parameter {paths[0].replace('.', '_')}, for example",
        )
    return Issue(
        f"the node has no attribute {name!r}, a mandatory parameter",
        f"set the attribute in the model, or make parameter {name!r} optional with a default",
    )
