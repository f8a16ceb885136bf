"""The types in which kernels take and give activations, and whether a definition allows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from xdlc.errors import BackendError, XdlcError, raise_all
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import BY_CODE, FLOAT32, FLOAT64, DType
from xdlc.opdefs.backend_view import CPU, is_real
from xdlc.opdefs.model import OpDef, TensorDef
from xdlc.opdefs.xml_elements import spelling
from xdlc.runtime.udo.descriptor import OpForm, TensorForm


def kernel_dtype(dtype: DType) -> DType:
    """Return the type in which kernels take and give activations."""
    return FLOAT32 if is_real(dtype) and dtype is not FLOAT64 else dtype


def check_types(op: Op, form: OpForm, definition: OpDef) -> None:
    """Check that kernels get activations as the definition has them, so that all kinds of kernels agree.

    Args:
        op: The op.
        form: What its kernel gets.
        definition: Its definition for a CPU; another one says nothing of what a CPU takes.

    Raises:
        BackendError: If something is of another type; a ProblemList of all.
    """
    if definition.backends == (CPU,):
        inputs = _misfits(op, "input", zip(op.inputs, form.inputs, strict=False), definition.inputs)
        outputs = _misfits(op, "output", zip(op.outputs, form.outputs, strict=True), definition.outputs)
        raise_all([*inputs, *outputs])


def place_of(op: Op) -> str:
    """Return what errors call an op."""
    graph = f"graph {op.graph.name!r}: " if op.graph is not None else ""
    return f"{graph}op {op.name!r} ({op.package}::{op.type})"


def _misfits(
    op: Op, side: str, operands: Iterable[tuple[Tensor | None, TensorForm]], places: Sequence[TensorDef]
) -> Iterator[XdlcError]:
    for index, (tensor, form) in enumerate(operands):
        place = places[min(index, len(places) - 1)] if places else None
        if tensor is None or place is None or place.is_static or _takes(place, BY_CODE[form.dtype]):
            continue
        found, wanted = BY_CODE[form.dtype], " or ".join(map(_word, place.dtypes))
        stored = f", for kernels {_word(found)}" if found is not tensor.dtype else ""
        yield BackendError(
            f"{side} {index} ({place.name!r}) is {tensor.dtype} in the model{stored}; its definition takes "
            f"{wanted} on a CPU",
            where=place_of(op),
            fix=f"give the CPU {_word(found)} there, with per_core_data_types of JSON or a supplement of "
            "XML, and convert the model again",
        )


def _takes(place: TensorDef, found: DType) -> bool:
    if found is FLOAT32:
        return not place.dtypes or any(is_real(dtype) and dtype is not FLOAT64 for dtype in place.dtypes)
    return not place.dtypes or found in place.dtypes


def _word(dtype: DType) -> str:
    return spelling(dtype).removeprefix("QNN_DATATYPE_")
