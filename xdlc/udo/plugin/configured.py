"""Definitions of plugins in configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xdlc.errors import UsageError, nearest_names
from xdlc.opdefs.collections import reduced
from xdlc.opdefs.model import Collection, ParamDef, TensorDef
from xdlc.udo.config import read
from xdlc.udo.plugin.enums import Enum
from xdlc.udo.plugin.kinds import REQUIRED, Bool, Float, Int, Kind, Str, Tensor

_SCALARS: dict[str, type[Kind]] = {
    "int": Int, "uint": Int, "sfixed": Int, "ufixed": Int, "float": Float, "bool": Bool, "string": Str
}  # fmt: skip


def configured(
    path: Path, package: str, name: str
) -> tuple[tuple[TensorDef, ...], tuple[TensorDef, ...], dict[str, Kind], Collection]:
    """Return inputs, outputs and parameters of an op of a configuration, and its package without other ops.

    Args:
        path: The file.
        package: Package of the op.
        name: Its type.

    Raises:
        XdlcError: If the file cannot be read, breaks its rules, or has no such op.
    """
    ops = {
        (collection.package, op.name): (collection, op)
        for collection in read(path)
        for op in collection.opdefs
    }
    if (package, name) not in ops:
        names = [f"{owner}::{op}" for owner, op in ops]
        raise UsageError(
            f"has no {package}::{name}",
            where=str(path),
            fix=nearest_names(f"{package}::{name}", names) or f"it has {', '.join(names) or 'no ops'}",
        )
    collection, definition = ops[package, name]
    return (
        definition.inputs,
        definition.outputs,
        {key: kind_of(param) for key, param in definition.params.items()},
        reduced(collection, {name}),
    )


def kind_of(param: ParamDef) -> Kind:
    """Return the kind of a parameter's definition."""
    default: Any = REQUIRED if param.mandatory else None
    if param.enumeration:
        return Enum(*param.enumeration, default=param.default or default)
    kind = param.dtypes[0].kind if param.dtypes else "float"
    dtype = param.dtypes[0].name if param.dtypes else None
    made = _SCALARS.get(kind, Float) if param.is_scalar else Tensor
    return made(default, dtype=dtype) if made is not Str else Str(default)
