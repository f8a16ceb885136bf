"""Definitions as resolved for a backend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from xdlc.errors import ModelError, UsageError
from xdlc.ir.dtype import UINT8, UINT16, DType
from xdlc.opdefs import backends
from xdlc.opdefs.backends import is_dsp
from xdlc.opdefs.model import Collection, Constraint, OpDef, SupplementOp, SupplementTensor, TensorDef
from xdlc.opdefs.supplements import Rows, offered, side_of
from xdlc.opdefs.xml_elements import BACKEND_SPECIFIC

ONLY_DEFAULT = "only the default"
"""Id of the constraint that replaces OnlyDefaultSupported."""
_Tensor = TypeVar("_Tensor", bound=TensorDef)


def resolve(opdef: OpDef, collection: Collection, backend: str) -> OpDef:
    """Return a definition merged with the supplements of a backend.

    The types that the backend accepts replace those of the definition, its layout and text too where it
    states them; a constraint replaces the definition's of the same id, others are added.  An input or
    parameter of which it supports only the default gets a constraint of type Description
    (see ``only_default``).  Of several supplements the one of the narrower name counts: see
    ``xdlc.opdefs.backends``.

    Raises:
        UsageError: If there is no such backend.
        ModelError: If the op is not offered for it, or a type or layout stays open.
    """
    for name, fix in backends.unknown([backend]):
        raise UsageError(f"unknown backend {name!r}", fix=fix)
    offers = offered(collection).get(opdef.name, set())
    where = f"op {opdef.name!r} of package {collection.package!r}"
    if offers and not any(backends.overlap(backend, name) for name in offers):
        raise ModelError(
            f"the op is not defined for {backend}, but for {', '.join(sorted(offers))}",
            where=where,
            fix=f"add {backend} to the SupportedBackend of the op",
        )
    rows = Rows(collection).of(opdef.name, backend)
    resolved = replace(
        opdef,
        inputs=tuple(_tensor(tensor, "input", rows) for tensor in opdef.inputs),
        outputs=tuple(_tensor(tensor, "output", rows) for tensor in opdef.outputs),
        params={name: _tensor(param, "param", rows) for name, param in opdef.params.items()},
        backends=(backend,),
    )
    for tensor in (*resolved.inputs, *resolved.outputs, *resolved.params.values()):
        open_ = "data type" if not tensor.dtypes else "layout"
        if not tensor.dtypes or tensor.layout == BACKEND_SPECIFIC:
            raise ModelError(
                f"{open_} of {tensor.name!r} is {BACKEND_SPECIFIC}; no supplement states it for {backend}",
                where=where,
                fix=f"add a supplement for the backend, or write the {open_} in the definition",
            )
    return resolved


def constrained(opdef: OpDef, collection: Collection, backend: str) -> OpDef:
    """Return a definition with a backend's constraints, but none of its other changes."""
    rows = Rows(collection).of(opdef.name, backend)
    return replace(
        opdef,
        inputs=tuple(_constrained(tensor, "input", rows) for tensor in opdef.inputs),
        outputs=tuple(_constrained(tensor, "output", rows) for tensor in opdef.outputs),
        params={name: _constrained(param, "param", rows) for name, param in opdef.params.items()},
    )


def _constrained(tensor: _Tensor, side: str, rows: Sequence[SupplementOp]) -> _Tensor:
    for row in reversed(rows):
        added = side_of(row, side).get(tensor.name)
        if added is not None:
            tensor = replace(tensor, constraints=_rules(tensor, added))
    return tensor


def only_default(tensor: TensorDef) -> bool:
    """Return whether a definition from ``resolve`` accepts only its default."""
    return any(rule.id == ONLY_DEFAULT and rule.type == "Description" for rule in tensor.constraints)


def _tensor(tensor: _Tensor, side: str, rows: Sequence[SupplementOp]) -> _Tensor:
    for row in reversed(rows):
        added = side_of(row, side).get(tensor.name)
        if added is not None:
            tensor = _with(tensor, added)
    return tensor


def _with(tensor: _Tensor, added: SupplementTensor) -> _Tensor:
    return replace(
        tensor,
        dtypes=added.dtypes or tensor.dtypes,
        layout=added.layout or tensor.layout,
        text=added.text or tensor.text,
        constraints=_rules(tensor, added),
    )


def _rules(tensor: TensorDef, added: SupplementTensor) -> tuple[Constraint, ...]:
    replaced = {rule.id: rule for rule in added.constraints if rule.id}
    kept = [replaced.pop(rule.id, rule) for rule in tensor.constraints]
    kept += [rule for rule in added.constraints if not rule.id or rule.id in replaced]
    if added.only_default and not only_default(tensor):
        kept.append(
            Constraint(
                ONLY_DEFAULT, "Description", f"the only supported value is the default {tensor.default}"
            )
        )
    return tuple(kept)


CPU = "CPU"


def activation_types(
    dtypes: tuple[DType, ...], *, stated: bool, backends: Iterable[str]
) -> tuple[DType, ...]:
    """Return the data types of a tensor on a CPU: float in place of quantized types.

    ``UINT_8`` and ``UINT_16`` are bytes and words.  They are SNPE's names of quantized activations where
    they are listed beside a float or fixed-point type for a CPU and a DSP together.

    Args:
        dtypes: Types of the definition, on the CPU if it separates them.
        stated: Whether it states them for the CPU alone.
        backends: All backends of the op.

    Example:
        >>> from xdlc.ir.dtype import FLOAT32
        >>> activation_types((FLOAT32, UINT8), stated=False, backends=["CPU", "DSP"])
        (float32,)
        >>> activation_types((FLOAT32, UINT8), stated=False, backends=["CPU"])
        (float32, uint8)
    """
    if stated or not any(map(is_dsp, backends)) or not any(map(holds_floats, dtypes)):
        return dtypes
    return tuple(dtype for dtype in dtypes if dtype not in (UINT8, UINT16))


def holds_floats(dtype: DType) -> bool:
    """Return whether a type represents float values, quantized or not."""
    return dtype.is_float or dtype.is_fixed


def on_cpu(opdef: OpDef, collection: Collection) -> OpDef | None:
    """Return a definition as resolved for the CPU; None if that is not possible.

    None means that it is not for a CPU, or that a type or layout stays open.
    """
    try:
        resolved = resolve(opdef, collection, CPU)
    except ModelError:
        return None
    rows = Rows(collection).of(opdef.name, CPU)
    backends = offered(collection)[opdef.name]

    def side(name: str, tensors: Sequence[TensorDef]) -> tuple[TensorDef, ...]:
        return tuple(
            tensor
            if tensor.is_static
            else replace(
                tensor,
                dtypes=activation_types(
                    tensor.dtypes, stated=_is_stated(tensor.name, name, rows), backends=backends
                ),
            )
            for tensor in tensors
        )

    return replace(resolved, inputs=side("input", resolved.inputs), outputs=side("output", resolved.outputs))


def _is_stated(tensor: str, side: str, rows: Sequence[SupplementOp]) -> bool:
    return any(side_of(row, side)[tensor].dtypes for row in rows if tensor in side_of(row, side))
