"""Defaults of parameters, as JSON and XML text, and of definitions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from xdlc.ir.dtype import DType
from xdlc.json_fields import Node, kind_of
from xdlc.opdefs.defaults import default_value, parse_default
from xdlc.opdefs.model import Collection, OpDef, ParamDef, SupplementTensor, TensorDef
from xdlc.udo.config.members import cores_of

_NOT_FINITE = re.compile(r"[+-]?inf(inity)?|nan", re.IGNORECASE)
"""Numbers that JSON does not have: strings, as OpDef XML writes them."""
_UNQUOTED = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?|true|false")
_BRACKETS = str.maketrans("(){}", "[][]")
_PLAIN_NUMBERS = re.compile(r"(?:[\[\], ]|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9.]))+")
_EXPECTED = {"string": "a string", "bool": "true or false", "name": "a name of its enumeration"}

Key = tuple[str, str, str, str]

_TENSOR = {
    "mandatory": "Mandatory",
    "dtypes": "Datatype",
    "rank": "Rank",
    "text": "Shape Text",
    "layout": "Layout",
    "constraints": "Constraint",
    "default": "Default",
    "repeated": "Repeated",
    "is_static": "IsStaticTensor",
    "enumeration": "Enumeration",
    "description": "Description",
}
_OP = {
    "description": "Description",
    "references": "Reference",
    "use_default_translation": "UseDefaultTranslation",
    "backends": "SupportedBackend",
}
_SUPPLEMENT = {
    "dtypes": "Datatype",
    "layout": "Layout",
    "text": "Shape Text",
    "constraints": "Constraint",
    "only_default": "OnlyDefaultSupported",
}


@dataclass(frozen=True, slots=True)
class Raw:
    """JSON that is written unchanged."""

    text: str


class WrongDefaultError(Exception):
    """A default, or an element of a default, whose type does not fit.

    Attributes:
        expected: What it should be.
        node: The value.
    """

    def __init__(self, expected: str, node: Node) -> None:
        super().__init__(expected)
        self.expected = expected
        self.node = node

    def message(self, what: str, default: Node) -> tuple[str, str]:
        """Return problem and fix.

        Args:
            what: Title of the input or parameter.

        Example:
            >>> WrongDefaultError("a number", node := Node("1")).message("param 'axis'", node)
            ("default of param 'axis' must be a number, found the string '1'", 'write it without quotes')
        """
        value = self.node.value
        quoted = isinstance(value, str) and _UNQUOTED.fullmatch(value) is not None
        whole = self.node.path == default.path
        subject = f"default of {what}" if whole else f"each element of the default of {what}"
        fix = "write it without quotes" if quoted else f"write {self.expected}"
        return f"{subject} must be {self.expected}, found {kind_of(value)}", fix


def default_text(
    node: Node,
    dtypes: Sequence[DType],
    names: tuple[str, ...] = (),
    *,
    is_scalar: bool = False,
    is_tensor: bool = False,
) -> str:
    """Return a default as OpDef XML writes it.

    Args:
        dtypes: Types of the parameter; none if that is not known.
        names: Names of its values, if it is an enumeration.
        is_scalar: Whether it has to be one value.
        is_tensor: Whether it has to be a tensor.

    Raises:
        WrongDefaultError: If the value does not fit the types.

    Example:
        >>> from xdlc.ir.dtype import BOOL8, FLOAT32
        >>> default_text(Node([1, 0.5]), [FLOAT32], is_tensor=True)
        '[1, 0.5]'
        >>> default_text(Node(True), [FLOAT32, BOOL8], is_scalar=True)
        '1'
        >>> default_text(Node(["-inf", 0]), [FLOAT32], is_tensor=True)
        '[-inf, 0]'
        >>> default_text(Node("1"), [FLOAT32], is_scalar=True)
        Traceback (most recent call last):
            ...
        xdlc.udo.config.defaults.WrongDefaultError: a number
    """
    if is_tensor and not isinstance(node.value, list):
        raise WrongDefaultError("an array like [[1, 2], [3, 4]]", node)
    if isinstance(node.value, list) and is_scalar:
        raise WrongDefaultError("one value, as the parameter is a scalar", node)
    reasons: list[WrongDefaultError] = []
    for kind in dict.fromkeys(["name"] if names else [dtype.kind for dtype in dtypes] or [""]):
        try:
            return _element(node, kind)
        except WrongDefaultError as reason:
            reasons.append(reason)
    raise reasons[0]


def _element(node: Node, kind: str) -> str:
    value = node.value
    if isinstance(value, list):
        return f"[{', '.join(_element(item, kind) for item in node.items())}]"
    is_bool = isinstance(value, bool)
    is_number = isinstance(value, int | float) and not is_bool
    if kind in ("string", "name") and isinstance(value, str):
        return value
    if kind == "float" and isinstance(value, str) and _NOT_FINITE.fullmatch(value):
        return value
    if kind == "bool" and (is_bool or (is_number and str(value) in ("0", "1"))):
        return "1" if value else "0"
    if kind == "name" and isinstance(value, int) and is_number:
        return str(value)
    if kind in ("int", "uint") and isinstance(value, float):
        raise WrongDefaultError("a whole number", node)
    if kind not in _EXPECTED and is_number:
        return str(value)
    raise WrongDefaultError(_EXPECTED.get(kind, "a number"), node)


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
    title = f"package {before.package!r}"
    if fields := _changed(before, after, {"domain": "Domain", "version": "Version"}):
        yield title, fields
    for old, new in zip(before.opdefs, after.opdefs, strict=True):
        yield from _op(old, new, before, after)
    rows = list(_supplements(after))
    kept = {key: row for _, key, row in rows}
    same = {(backend, key): row for backend, key, row in rows}
    for backend, key, row in _supplements(before):
        other = same.get((backend, key)) or kept.get(key) or _implied(key, row, after)
        if fields := _changed(row, other, _SUPPLEMENT):
            _, op, side, name = key
            yield f"{side} {name!r} of operator {op!r}, supplement for {backend}", fields


def _supplements(collection: Collection) -> Iterator[tuple[str, Key, SupplementTensor]]:
    """Yield rows of supplements with backend, core, operator, side and name."""
    for table in collection.supplements:
        core = (cores_of((table.backend,))[0] or [table.backend])[0]
        for op in (op for alternatives in table.ops.values() for op in alternatives):
            for side, rows in (("input", op.inputs), ("output", op.outputs), ("parameter", op.params)):
                for name, row in rows.items():
                    yield table.backend, (core, op.name, side, name), row


def _implied(key: Key, row: SupplementTensor, collection: Collection) -> SupplementTensor:
    """Return the definition's defaults for the fields that the row states."""
    _, op, side, name = key
    definition = next((held for held in collection.opdefs if held.name == op), None)
    dtypes: tuple[DType, ...] = ()
    if definition is not None and row.dtypes:
        sides = {
            "input": definition.inputs,
            "output": definition.outputs,
            "parameter": definition.params.values(),
        }
        dtypes = next((tensor.dtypes for tensor in sides[side] if tensor.name == name), ())
    return SupplementTensor(name, dtypes)


def _op(old: OpDef, new: OpDef, before: Collection, after: Collection) -> Iterator[tuple[str, list[str]]]:
    title = f"operator {old.name!r}"
    fields = [
        name
        for field, name in _OP.items()
        if field != "backends" and getattr(old, field) != getattr(new, field)
    ]
    if _offered(old, before) != _offered(new, after):
        fields.append("SupportedBackend")
    if list(old.params) != list(new.params):
        fields.append("order of Parameters")
    if fields:
        yield title, fields
    pairs = [("input", *pair) for pair in zip(old.inputs, new.inputs, strict=True)]
    pairs += [("output", *pair) for pair in zip(old.outputs, new.outputs, strict=True)]
    pairs += [("parameter", param, new.params[name]) for name, param in old.params.items()]
    for side, tensor, other in pairs:
        if changed := [
            name for name in _changed(tensor, other, _TENSOR) if name != "Default" or _unlike(tensor, other)
        ]:
            yield f"{side} {tensor.name!r} of {title}", changed


def _unlike(tensor: TensorDef, other: TensorDef) -> bool:
    """Return whether two defaults have different values; spelling is ignored."""
    try:
        return bool(default_value(tensor) != default_value(other))
    except ValueError:
        return True


def _changed(old: Any, new: Any, names: dict[str, str]) -> list[str]:
    return [name for field, name in names.items() if getattr(old, field, None) != getattr(new, field, None)]


def _offered(op: OpDef, collection: Collection) -> set[str]:
    return {*op.backends, *(table.backend for table in collection.supplements if op.name in table.supported)}
