"""Writes inputs, outputs and parameters as JSON."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdlc.errors import ModelError
from xdlc.ir.dtype import DType
from xdlc.opdefs.defaults import default_value, parse_default
from xdlc.opdefs.model import ParamDef, SupplementOp, SupplementTable, SupplementTensor, TensorDef
from xdlc.opdefs.xml_elements import BACKEND_SPECIFIC
from xdlc.udo.config.extension import RANKS
from xdlc.udo.config.json_layout import Raw
from xdlc.udo.config.names import LAYOUTS, cores_of, type_name
from xdlc.udo.config.writing_extension import constrained, described

_RANK_NAMES = {rank: name for name, rank in RANKS.items()}
_BRACKETS = str.maketrans("(){}", "[][]")
_PLAIN_NUMBERS = re.compile(r"(?:[\[\], ]|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![0-9.]))+")


@dataclass(frozen=True, slots=True)
class Types:
    """What is needed to tell the data types of an operator's tensors.

    Attributes:
        op: The operator.
        cores: Its cores.
        tables: The supplements that name it.
        extended: Whether fields of ours may be used.
    """

    op: str
    cores: list[str]
    tables: Sequence[SupplementTable]
    extended: bool

    def rows(self, side: str, name: str, core: str) -> list[SupplementTensor]:
        """Return what the tables of a core add about an input, output or parameter."""
        tables = [table for table in self.tables if cores_of((table.backend,))[0] == [core]]
        ops = [op for table in tables for op in table.ops.get(self.op, ())]
        return [tensors[name] for tensors in (_side(op, side) for op in ops) if name in tensors]


def _side(op: SupplementOp, side: str) -> dict[str, SupplementTensor]:
    return {"inputs": op.inputs, "outputs": op.outputs, "params": op.params}[side]


def types_of(tensor: TensorDef, side: str, types: Types) -> dict[str, Any]:
    """Return the fields that tell a tensor's data type.

    Args:
        tensor: The tensor.
        side: ``inputs``, ``outputs`` or ``params``.
        types: Knows its operator.

    Raises:
        ModelError: If a core has no type, and it may not be said in a field of ours.
    """
    of_core: dict[str, DType] = {}
    for core in types.cores:
        said = [row.dtypes[0] for row in types.rows(side, tensor.name, core) if row.dtypes]
        for dtype in (said or tensor.dtypes)[:1]:
            of_core[core] = dtype
    several = types.extended and len(tensor.dtypes) != 1
    found: dict[str, Any] = {}
    if len(of_core) == len(types.cores):
        names = {core: type_name(dtype) for core, dtype in of_core.items()}
        same = len(set(names.values())) == 1
        is_scalar = isinstance(tensor, ParamDef) and tensor.is_scalar
        if is_scalar or (same and tensor.dtypes):
            found["data_type"] = next(iter(names.values()))
        else:
            found["per_core_data_types"] = names
    elif not several:
        missing = next(core for core in types.cores if core not in of_core)
        raise ModelError(
            f"{side[:-1]} {tensor.name!r} of operator {types.op!r} has no data type for {missing}",
            fix="state one in its definition or supplement, or use fields of xdlc's own",
        )
    if several and (tensor.dtypes or "per_core_data_types" not in found):
        found["xdlc_data_types"] = [type_name(dtype) for dtype in tensor.dtypes] or [BACKEND_SPECIFIC]
    return found


def entry_of(tensor: TensorDef, types: dict[str, Any], extended: bool) -> dict[str, Any]:
    """Return an input, output or parameter as JSON.

    Args:
        tensor: The tensor.
        types: The fields that tell its data type.
        extended: Whether to use fields of ours.
    """
    entry: dict[str, Any] = {"name": tensor.name, **types}
    if tensor.is_static:
        entry["static"] = True
    if tensor.layout in LAYOUTS and (extended or tensor.layout != BACKEND_SPECIFIC):
        entry["tensor_layout"] = tensor.layout
    if tensor.repeated:
        entry["repeated"] = True
    if tensor.default is not None:
        entry["default"] = _default_of(tensor, extended)
    return entry | (_extension(tensor) if extended else {})


def _extension(tensor: TensorDef) -> dict[str, Any]:
    is_scalar = isinstance(tensor, ParamDef) and tensor.is_scalar
    found: dict[str, Any] = {}
    if tensor.rank is not None and not is_scalar:
        found["xdlc_rank"] = _RANK_NAMES[tensor.rank]
    if tensor.text:
        found["xdlc_shape"] = tensor.text
    if tensor.mandatory != (tensor.default is None):
        found["xdlc_mandatory"] = tensor.mandatory
    if isinstance(tensor, ParamDef) and tensor.enumeration:
        found["xdlc_enumeration"] = list(tensor.enumeration)
    if tensor.constraints:
        found["xdlc_constraints"] = constrained(tensor.constraints)
    if tensor.description:
        found["xdlc_description"] = described(tensor.description)
    return found


def _default_of(tensor: TensorDef, extended: bool) -> Any:
    """Return a default as JSON; numbers as they are written, where JSON writes them the same way.

    Args:
        tensor: The tensor.
        extended: Whether its enumeration is known to the reader, so that a name can stand for its number.

    Example:
        >>> from xdlc.ir import dtype as dt
        >>> _default_of(TensorDef("a", False, (dt.FLOAT32,), None, default="[[1.50], [2]]"), False)
        Raw(text='[[1.50], [2]]')
        >>> _default_of(TensorDef("a", False, (dt.FLOAT32,), None, default="{.5, -inf}"), False)
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
    """Return numbers with strings for those that JSON cannot write."""
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
