"""Defaults of parameters, as JSON and XML text, and of definitions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from xdlc.ir.dtype import BOOL8, FLOAT64, DType
from xdlc.json_fields import Node, kind_of
from xdlc.opdefs.defaults import default_value, parse_default
from xdlc.opdefs.model import Collection, OpDef, ParamDef, SupplementTensor, TensorDef
from xdlc.opdefs.supplements import offers_of
from xdlc.opdefs.values import as_text, element, enumerator
from xdlc.udo.config.members import TAGS, cores_of

_UNQUOTED = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false")
_BRACKETS = str.maketrans("(){}", "[][]")
_PLAIN_NUMBERS = re.compile(r"(?:[\[\], ]|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9.]))+")

_OP = {
    "description": "Description",
    "references": "Reference",
    "use_default_translation": "UseDefaultTranslation",
}


@dataclass(frozen=True, slots=True)
class Raw:
    """JSON that is written unchanged."""

    text: str


class WrongDefaultError(Exception):
    """A default, or an element of a default, that does not fit its definition.

    Attributes:
        node: The value.
    """

    def __init__(self, problem: str, node: Node) -> None:
        super().__init__(problem)
        self.node = node

    def message(self, what: str) -> tuple[str, str]:
        """Return problem and fix.

        Args:
            what: Title of the input or parameter.

        Example:
            >>> WrongDefaultError("expected a string", Node(1)).message("param 'axis'")
            ("default of param 'axis' is the number 1, expected a string", 'correct the value')
        """
        value = self.node.value
        is_quoted = isinstance(value, str) and _UNQUOTED.fullmatch(value) is not None
        fix = "write it without quotes" if is_quoted else "correct the value"
        return f"default of {what} is {kind_of(value)}, {self}", fix


def default_text(node: Node, definition: TensorDef) -> str:
    """Return a JSON default as OpDef XML writes it.

    Args:
        definition: Its input or parameter.

    Raises:
        WrongDefaultError: If the value does not fit the definition.

    Example:
        >>> from xdlc.ir.dtype import BOOL8, FLOAT32
        >>> default_text(Node([1, 0.5]), ParamDef("p", False, (FLOAT32,), 1))
        '[1, 0.5]'
        >>> default_text(Node(["-inf", True]), ParamDef("p", False, (FLOAT32, BOOL8), 1))
        Traceback (most recent call last):
            ...
        xdlc.udo.config.defaults.WrongDefaultError: expected a number of float32
    """
    names = definition.enumeration if isinstance(definition, ParamDef) else ()
    is_list = isinstance(node.value, list)
    if isinstance(definition, ParamDef) and is_list == definition.is_scalar:
        kind = "one value, as the parameter is a scalar" if is_list else "an array like [[1, 2], [3, 4]]"
        raise WrongDefaultError(f"expected {kind}", node)
    reasons: list[WrongDefaultError] = []
    for dtype in definition.dtypes or (FLOAT64,):
        try:
            for leaf in node.leaves():
                _check(leaf, dtype, names)
            return as_text(node.value)
        except WrongDefaultError as reason:
            reasons.append(reason)
    raise reasons[0]


def _check(leaf: Node, dtype: DType, names: tuple[str, ...]) -> None:
    try:
        if names:
            enumerator(names, leaf.value)
        elif isinstance(leaf.value, bool) and dtype is not BOOL8:
            raise ValueError(f"expected a number of {dtype.name}")
        else:
            element(dtype, leaf.value)
    except ValueError as error:
        raise WrongDefaultError(str(error), leaf) from error


def default_json(tensor: TensorDef, extended: bool) -> Any:
    """Return a default as JSON, numbers as written where JSON writes them alike.

    Args:
        extended: Whether the JSON has its enumeration, so that the name is written instead of the number.

    Example:
        >>> from xdlc.ir import dtype as dt
        >>> default_json(TensorDef("a", False, (dt.FLOAT32,), None, default="[[1.50], [2]]"), False)
        Raw(text='[[1.50], [2]]')
        >>> default_json(TensorDef("a", False, (dt.FLOAT32,), None, default="{.5, -inf}"), False)
        [0.5, '-inf']
    """
    text = tensor.default or ""
    if isinstance(tensor, ParamDef) and tensor.enumeration:
        return text if extended and text in tensor.enumeration else default_value(tensor)
    if any(dtype.kind == "string" for dtype in tensor.dtypes):
        return text
    if any(dtype.kind == "bool" for dtype in tensor.dtypes):
        return default_value(tensor)
    plain = text.translate(_BRACKETS)
    if _PLAIN_NUMBERS.fullmatch(plain):
        return Raw(re.sub(r",\s*", ", ", plain))
    try:
        return _finite(default_value(tensor))
    except ValueError:
        return parse_default(text)


def _finite(value: Any) -> Any:
    """Return numbers, with strings for NaN and infinity, which JSON lacks."""
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def differences(before: Collection, after: Collection) -> Iterator[tuple[str, list[str]]]:
    """Yield each changed part, with the OpDef XML names of its changed fields.

    Args:
        after: The same in another form: with the same operations, inputs, outputs and parameters.
    """
    if fields := _changed(before, after, {"domain": "Domain", "version": "Version"}):
        yield f"package {before.package!r}", fields
    for old, new in zip(before.opdefs, after.opdefs, strict=True):
        title = f"operator {old.name!r}"
        fields = _changed(old, new, _OP)
        fields += ["SupportedBackend"] if offers_of(old, before) != offers_of(new, after) else []
        fields += ["order of Parameters"] if list(old.params) != list(new.params) else []
        if fields:
            yield title, fields
        changed = _tensors(new)
        for (side, name), tensor in _tensors(old).items():
            other = changed[side, name]
            names = _changed(tensor, other, TAGS)
            if names := [tag for tag in names if tag != "Default" or _unlike(tensor, other)]:
                yield f"{side} {name!r} of {title}", names
    rows = list(_supplements(after))
    kept = {(core, key): row for _, core, key, row in rows}
    same = {(backend, key): row for backend, _, key, row in rows}
    tensors = {(op.name, *key): tensor for op in after.opdefs for key, tensor in _tensors(op).items()}
    for backend, core, key, row in _supplements(before):
        other_row = same.get((backend, key)) or kept.get((core, key))
        if other_row is None:  # the definition itself states its types
            stated = tensors.get(key)
            other_row = SupplementTensor(row.name, stated.dtypes if stated is not None and row.dtypes else ())
        if fields := _changed(row, other_row, TAGS):
            op_name, side, name = key
            yield f"{side} {name!r} of operator {op_name!r}, supplement for {backend}", fields


def _tensors(op: OpDef) -> dict[tuple[str, str], TensorDef]:
    """Return inputs, outputs and parameters by side and name."""
    sides = {"input": op.inputs, "output": op.outputs, "parameter": tuple(op.params.values())}
    return {(side, tensor.name): tensor for side, tensors in sides.items() for tensor in tensors}


def _supplements(
    collection: Collection,
) -> Iterator[tuple[str, str, tuple[str, str, str], SupplementTensor]]:
    """Yield rows of supplements with backend, core, and operator, side and name."""
    for table in collection.supplements:
        core = (cores_of((table.backend,))[0] or [table.backend])[0]
        for op in (op for alternatives in table.ops.values() for op in alternatives):
            for side, rows in (("input", op.inputs), ("output", op.outputs), ("parameter", op.params)):
                for name, row in rows.items():
                    yield table.backend, core, (op.name, side, name), row


def _unlike(tensor: TensorDef, other: TensorDef) -> bool:
    """Return whether two defaults have different values; spelling is ignored."""
    try:
        return bool(default_value(tensor) != default_value(other))
    except ValueError:
        return True


def _changed(old: Any, new: Any, names: dict[str, str]) -> list[str]:
    return [name for field, name in names.items() if getattr(old, field, None) != getattr(new, field, None)]
