"""What the HTP takes of an operation, in the words of its op packages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from xdlc.ir.dtype import DType
from xdlc.udo.generator.quoting import Quoted
from xdlc.udo.generator.views import CoreView, OpView

GENERIC = "Tensor"
"""The class of any tensor; elements are read as float through calls that are not inlined."""

_MOST_FORMS = 32
_CLASSES = {
    "ufixed8": ("QuantUint8Tensor",),
    "uint8": ("QuantUint8Tensor",),
    "ufixed16": ("QuantUint16Tensor",),
    "uint16": ("QuantUint16Tensor",),
    "sfixed8": ("QuantInt8Tensor",),
    "int8": ("QuantInt8Tensor",),
    "sfixed16": ("QuantInt16Tensor",),
    "int16": ("QuantInt16Tensor",),
    "sfixed32": ("QuantInt32Tensor",),
    "int32": ("Int32Tensor",),
    "uint32": ("Int32Tensor",),
    "float16": ("PlainFloat16Tensor",),
    "float32": ("PlainFloatTensor", "PlainFloat16Tensor"),
}
"""A float32 tensor is one of float16 where the graph runs with that precision."""


@dataclass(frozen=True, slots=True)
class Form:
    """One kernel that is registered.

    Attributes:
        inputs: How many inputs it takes; optional ones behind them are left out.
        classes: Classes of outputs, then of those inputs.
    """

    inputs: int
    classes: tuple[str, ...]


def tensor_classes(dtypes: tuple[DType, ...]) -> tuple[str, ...]:
    """Return the classes of tensors of these types.

    Example:
        >>> from xdlc.ir.dtype import BY_NAME
        >>> tensor_classes((BY_NAME["ufixed8"], BY_NAME["float32"], BY_NAME["int64"]))
        ('QuantUint8Tensor', 'PlainFloatTensor', 'PlainFloat16Tensor', 'Tensor')
    """
    found = (name for dtype in dtypes for name in _CLASSES.get(dtype.name, (GENERIC,)))
    return tuple(dict.fromkeys(found))


def forms(op: OpView, core: CoreView) -> tuple[Form, ...]:
    """Return the kernels to register: for each number of inputs, all combinations of tensor classes.

    Tensors that may have the same types have the same one at a time.  Where there are more combinations
    than is sensible, one kernel takes tensors of any class.
    """
    fewest = sum(place.mandatory for place in op.inputs)
    counts = range(max(fewest, 1), len(op.inputs) + 1)
    return tuple(form for count in counts for form in _forms(op, core, count))


def _forms(op: OpView, core: CoreView, count: int) -> Iterator[Form]:
    choices = [tensor_classes(place.types_on(core)) for place in (*op.outputs, *op.inputs[:count])]
    distinct = tuple(dict.fromkeys(choices))
    number = 1
    for classes in distinct:
        number *= len(classes)
    if number > _MOST_FORMS:
        yield Form(count, (GENERIC,) * len(choices))
        return
    for chosen in product(*distinct):
        names = dict(zip(distinct, chosen, strict=True))
        yield Form(count, tuple(names[classes] for classes in choices))


def template_types(op: OpView, count: int) -> Quoted:
    """Return the template parameters of a kernel that takes so many inputs."""
    names = [f"Out{place.index}" for place in op.outputs] + [
        f"In{place.index}" for place in op.inputs[:count]
    ]
    return joined([f"typename {name}" for name in names])


def arguments(op: OpView, given: int, count: int) -> Quoted:
    """Return the arguments of a kernel: of so many inputs, those that may be left out are pointers."""
    outputs = [f"Out{place.index} &out{place.index}" for place in op.outputs]
    inputs = [f"const In{i} {'&' if i < given else '*'}in{i}" for i in range(count)]
    return joined([*outputs, *inputs, *(f"const Tensor &param{place.index}" for place in op.params)])


def values(op: OpView, given: int, count: int) -> Quoted:
    """Return what a kernel of all inputs is called with where so many are there."""
    inputs = [f"in{i}" if i < given else f"&in{i}" for i in range(count)]
    inputs += ["static_cast<const Tensor *>(nullptr)"] * (len(op.inputs) - count)
    outputs = [f"out{place.index}" for place in op.outputs]
    return joined([*outputs, *inputs, *(f"param{place.index}" for place in op.params)])


def joined(parts: Sequence[str]) -> Quoted:
    """Return identifiers and the like as a list of C++."""
    return Quoted(", ".join(parts))


FILTERS = {
    "htp_arguments": arguments,
    "htp_forms": forms,
    "htp_list": joined,
    "htp_types": template_types,
    "htp_values": values,
}
