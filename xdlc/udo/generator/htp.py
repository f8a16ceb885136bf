"""Operations in the terms of HTP op packages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from xdlc.ir.dtype import DType
from xdlc.udo.generator.naming import Quoted
from xdlc.udo.generator.template_context import DSP, CoreView, OperationView, PackageView, Place

GENERIC = "Tensor"
"""The class of any tensor; elements are read as float through calls that are not inlined."""

_LONGEST = 70
_MOST_FORMS = 32
_MOST_WITH_GAPS = 128
_MOST_OPTIONAL = 6
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

There = tuple[bool, ...]
"""Presence of the first inputs or outputs; later ones are omitted."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A signature of a kernel: which of its outputs and inputs are present.

    A tensor that is omitted before a present one keeps its place: models have one of
    ``QNN_TENSOR_TYPE_NULL`` in it (QNN's rules of operation definitions).

    Attributes:
        outputs: Which are there.
        inputs: Which are there.
    """

    outputs: There
    inputs: There

    @property
    def has_gaps(self) -> bool:
        """Whether a place is empty."""
        return not (all(self.outputs) and all(self.inputs))

    @property
    def suffix(self) -> str:
        """Suffix of its function after the operation's type: ``_o1_i101``."""
        return f"_o{_digits(self.outputs)}_i{_digits(self.inputs)}"


@dataclass(frozen=True, slots=True)
class KernelRegistration:
    """One kernel that is registered.

    Attributes:
        entry: The tensors that it takes.
        classes: Classes of outputs, then of inputs, those that are there only.
    """

    entry: Entry
    classes: tuple[str, ...]


def _digits(there: There) -> str:
    return "".join("1" if each else "0" for each in there)


def tensor_classes(dtypes: tuple[DType, ...]) -> tuple[str, ...]:
    """Return the classes of tensors of these types.

    Example:
        >>> from xdlc.ir.dtype import BY_NAME
        >>> tensor_classes((BY_NAME["ufixed8"], BY_NAME["float32"], BY_NAME["int64"]))
        ('QuantUint8Tensor', 'PlainFloatTensor', 'PlainFloat16Tensor', 'Tensor')
    """
    found = (name for dtype in dtypes for name in _CLASSES.get(dtype.name, (GENERIC,)))
    return tuple(dict.fromkeys(found))


def forms(op: OperationView, core: CoreView) -> tuple[KernelRegistration, ...]:
    """Return the kernels to register, for all combinations of tensor classes.

    Tensors that may have the same types have the same one at a time.  Where there are more combinations
    than is sensible, one kernel takes tensors of any class, and omitted tensors must be at the end.
    """
    if _has_own_empty_places(op, core):
        found = [_forms(op, core, entry) for entry in _entries(op, gaps=True)]
        if all(found) and sum(map(len, found)) <= _MOST_WITH_GAPS:
            return tuple(form for each in found for form in each)
    found = [_forms(op, core, entry) or [_generic(entry)] for entry in _entries(op, gaps=False)]
    return tuple(form for each in found for form in each)


def takes_gaps(op: OperationView, core: CoreView) -> bool:
    """Return whether tensors may be omitted before present tensors."""
    return any(form.entry.has_gaps for form in forms(op, core))


def entries(op: OperationView, core: CoreView) -> tuple[Entry, ...]:
    """Return the signatures of a kernel; one if all operands are mandatory."""
    return tuple(dict.fromkeys(form.entry for form in forms(op, core)))


def notices(package: PackageView) -> Iterator[str]:
    """Yield a notice for each operation whose early tensors cannot be omitted."""
    for core in package.cores:
        for op in core.ops if core.group == DSP and core.owner == core.name else ():
            if _optional(op)[1:] and not takes_gaps(op, core):
                yield (
                    f"{op.type} on {core.name}: too many combinations of types or optional tensors: "
                    "omitted tensors must be at the end"
                )


def _optional(op: OperationView) -> list[Place]:
    return [place for place in (*op.outputs, *op.inputs) if not place.mandatory]


def _has_own_empty_places(op: OperationView, core: CoreView) -> bool:
    """Return whether an empty operand differs in class from each optional tensor."""
    optional = _optional(op)
    return len(optional) <= _MOST_OPTIONAL and all(
        GENERIC not in tensor_classes(place.types_on(core)) for place in optional
    )


def _entries(op: OperationView, *, gaps: bool) -> list[Entry]:
    outputs, inputs = _patterns(op.outputs, gaps=gaps), _patterns(op.inputs, gaps=gaps)
    return [Entry(some, others) for some in outputs for others in inputs]


def _fewest(places: Sequence[Place]) -> int:
    """Return how many inputs or outputs a model has at least."""
    return max((place.index + 1 for place in places if place.mandatory), default=1)


def _patterns(places: Sequence[Place], *, gaps: bool) -> list[There]:
    choices = [(True, False) if gaps and not place.mandatory else (True,) for place in places]
    found = (
        there for count in range(_fewest(places), len(places) + 1) for there in product(*choices[:count])
    )
    return [there for there in found if any(there)]


def _forms(op: OperationView, core: CoreView, entry: Entry) -> list[KernelRegistration]:
    """All combinations of tensor classes; () if there are too many."""
    present = (*_present(op.outputs, entry.outputs), *_present(op.inputs, entry.inputs))
    choices = [tensor_classes(place.types_on(core)) for place in present]
    distinct = tuple(dict.fromkeys(choices))
    if prod(map(len, distinct)) > _MOST_FORMS:
        return []
    found = []
    for chosen in product(*distinct):
        names = dict(zip(distinct, chosen, strict=True))
        found.append(KernelRegistration(entry, tuple(names[classes] for classes in choices)))
    return found


def _generic(entry: Entry) -> KernelRegistration:
    return KernelRegistration(entry, (GENERIC,) * (len(entry.outputs) + len(entry.inputs)))


def _present(places: Sequence[Place], there: There) -> Iterator[Place]:
    return (place for place, is_there in zip(places, there, strict=False) if is_there)


def template_types(op: OperationView, entry: Entry | None = None) -> Quoted:
    """Return the template parameters of a kernel, or of one of its signatures."""
    outputs, inputs = (op.outputs, op.inputs)
    if entry is not None:
        outputs = tuple(_present(op.outputs, entry.outputs))
        inputs = tuple(_present(op.inputs, entry.inputs))
    names = [f"Out{place.index}" for place in outputs] + [f"In{place.index}" for place in inputs]
    return joined([f"typename {name}" for name in names])


def kernel_arguments(op: OperationView) -> Quoted:
    """Return the arguments of a kernel: tensors that may be omitted are pointers."""
    outputs = [f"Out{place.index} {_mark(place)}out{place.index}" for place in op.outputs]
    inputs = [f"const In{place.index} {_mark(place)}in{place.index}" for place in op.inputs]
    return joined([*outputs, *inputs, *_params(op)])


def _mark(place: Place) -> str:
    return "&" if place.mandatory else "*"


def _params(op: OperationView) -> list[str]:
    return [f"const Tensor &param{place.index}" for place in op.params]


def entry_arguments(op: OperationView, entry: Entry) -> Quoted:
    """Return the parameters of a signature; omitted operands have no name."""
    outputs = [f"Out{i} &out{i}" if there else "Tensor &" for i, there in enumerate(entry.outputs)]
    inputs = [f"const In{i} &in{i}" if there else "const Tensor &" for i, there in enumerate(entry.inputs)]
    return joined([*outputs, *inputs, *_params(op)])


def entry_types(op: OperationView, entry: Entry) -> Quoted:
    """Return the template arguments with which a signature calls the kernel."""
    outputs = [f"Out{i}" if there else GENERIC for i, there in enumerate(_all(entry.outputs, op.outputs))]
    inputs = [f"In{i}" if there else GENERIC for i, there in enumerate(_all(entry.inputs, op.inputs))]
    return joined([*outputs, *inputs])


def entry_values(op: OperationView, entry: Entry) -> Quoted:
    """Return the arguments with which a signature calls the kernel."""
    outputs = _values(op.outputs, entry.outputs, "out")
    inputs = _values(op.inputs, entry.inputs, "in")
    return joined([*outputs, *inputs, *(f"param{place.index}" for place in op.params)])


def _all(there: There, places: Sequence[Place]) -> There:
    return there + (False,) * (len(places) - len(there))


def _values(places: Sequence[Place], there: There, name: str) -> Iterator[str]:
    for place, is_there in zip(places, _all(there, places), strict=True):
        yield f"{'' if place.mandatory else '&'}{name}{place.index}" if is_there else "nullptr"


def joined(parts: Sequence[str]) -> Quoted:
    """Return words as a comma-separated C++ list, wrapped into lines.

    Example:
        >>> print(joined(["const In0 &in0", "const In1 *in1"]))
        const In0 &in0, const In1 *in1
    """
    lines = [""]
    for part in parts:
        if len(lines[-1]) + len(part) > _LONGEST:
            lines.append("")
        lines[-1] += f"{part}, "
    return Quoted("\n    ".join(line.rstrip() for line in lines).removesuffix(","))


FILTERS = {
    "htp_entries": entries,
    "htp_entry_arguments": entry_arguments,
    "htp_entry_types": entry_types,
    "htp_entry_values": entry_values,
    "htp_forms": forms,
    "htp_kernel_arguments": kernel_arguments,
    "htp_list": joined,
    "htp_takes_gaps": takes_gaps,
    "htp_types": template_types,
}
