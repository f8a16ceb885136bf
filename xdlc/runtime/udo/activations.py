"""Data types of activations at kernels, and whether a definition allows them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from xdlc.errors import BackendError, XdlcError, raise_all
from xdlc.ir import Op, Tensor
from xdlc.ir.dtype import BY_CODE, FLOAT32, FLOAT64, UINT8, UINT16, UNDEFINED, DType
from xdlc.opdefs.backend_view import CPU, holds_floats
from xdlc.opdefs.model import OpDef, TensorDef
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.xml_elements import spelling
from xdlc.runtime.udo.descriptor import OpForm, TensorForm


def kernel_dtype(dtype: DType) -> DType:
    """Return the data type in which kernels get an activation."""
    return FLOAT32 if holds_floats(dtype) and dtype is not FLOAT64 else dtype


def check_types(op: Op, form: OpForm, definition: OpDef) -> None:
    """Check the types of activations at a kernel against its definition.

    Args:
        form: Its descriptor.
        definition: Its definition for a CPU; another one does not state the types of a CPU.

    Raises:
        BackendError: If something is of another type; a ProblemList of all.
    """
    if definition.backends == (CPU,):
        inputs = _misfits(op, "input", zip(op.inputs, form.inputs, strict=False), definition.inputs)
        outputs = _misfits(op, "output", zip(op.outputs, form.outputs, strict=True), definition.outputs)
        raise_all([*inputs, *outputs])


def place_of(op: Op) -> str:
    """Return the title of an op in errors."""
    graph = f"graph {op.graph.name!r}: " if op.graph is not None else ""
    return f"{graph}op {op.name!r} ({op.package}::{op.type})"


def _misfits(
    op: Op, side: str, operands: Iterable[tuple[Tensor | None, TensorForm]], places: Sequence[TensorDef]
) -> Iterator[XdlcError]:
    for index, (tensor, form) in enumerate(operands):
        place = places[min(index, len(places) - 1)] if places else None
        if tensor is None or place is None or place.is_static or _takes(place, BY_CODE[form.dtype]):
            continue
        dtype, accepted = BY_CODE[form.dtype], " or ".join(map(_word, place.dtypes))
        stored = f", for kernels {_word(dtype)}" if dtype is not tensor.dtype else ""
        yield BackendError(
            f"{side} {index} ({place.name!r}) is {tensor.dtype} in the model{stored}; its definition accepts "
            f"{accepted} on a CPU",
            where=place_of(op),
            fix=f"give the CPU {_word(dtype)} there, with per_core_data_types of JSON or a supplement of "
            "XML, and convert the model again",
        )


def _takes(place: TensorDef, found: DType) -> bool:
    if found is FLOAT32:
        return not place.dtypes or any(holds_floats(dtype) and dtype is not FLOAT64 for dtype in place.dtypes)
    return not place.dtypes or found in place.dtypes


def _word(dtype: DType) -> str:
    return spelling(dtype).removeprefix("QNN_DATATYPE_")


def typed(specs: list[TensorSpec] | None, view: OpView, definition: OpDef | None) -> list[TensorSpec] | None:
    """Set missing data types of outputs: of the first input, or the first allowed.

    Args:
        specs: Outputs; those of type undefined get a type.
        view: The op.
        definition: Its definition.
    """
    if specs is None:
        return None
    first = kernel_dtype(next((spec.dtype for spec in view.inputs if spec is not None), FLOAT32))
    places = definition.outputs if definition is not None else ()
    typed_specs = []
    for index, spec in enumerate(specs):
        allowed = places[min(index, len(places) - 1)].dtypes if places else ()
        # integers of SNPE's DSPs are quantized values
        kinds = [FLOAT32 if dtype in (UINT8, UINT16) else kernel_dtype(dtype) for dtype in allowed]
        dtype = first if first in (*kinds, *allowed) or not kinds else kernel_dtype(allowed[0])
        typed_specs.append(replace(spec, dtype=dtype) if spec.dtype is UNDEFINED else spec)
    return typed_specs
