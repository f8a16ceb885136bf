"""Names in the constraints and shape texts of one op, and their values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from xdlc.ir.dtype import DType
from xdlc.opdefs.constraint_eval import Enumerator, Place, UnknownError, Value, about, dims_of, plain
from xdlc.opdefs.constraint_parser import Node
from xdlc.opdefs.defaults import default_value
from xdlc.opdefs.model import OpDef, ParamDef, TensorDef
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.xml_elements import dtype_of
from xdlc.records import record

OWN = ("rank", "shape", "size", "datatype", "value", "number")
"""Words that alone mean those of the tensor or parameter that a constraint belongs to."""
SIDES = {"in": "input", "out": "output"}
ALL = {"inputs": "input", "outputs": "output"}
_TRUTH = {"true": True, "false": False}


@record(frozen=True)
class OpScope:
    """Bindings of names in one op.

    Attributes:
        own: The tensor or parameter that a constraint belongs to; None for a shape's text.
        dims: Sizes of named dimensions, None for a dynamic one.
        exact_types: Whether float32 differs from fixed-point types, which a quantizer may choose later.
        places: Inputs and outputs by name, as ``places_of`` returns them; derived where omitted.
    """

    definition: OpDef
    view: OpView
    own: TensorDef | None = None
    dims: Mapping[str, Value] = field(default_factory=dict)
    exact_types: bool = False
    places: Mapping[str, tuple[str, int, TensorDef]] = field(default_factory=dict)

    def lookup(self, name: str) -> Value:
        """Return the value of a name.

        Raises:
            UnknownError: If it is not known.
        """
        place = self.tensors(name)
        if place is not None:
            return replace(place, dim=(self.dims[name],)) if name in self.dims else place
        if name in self.definition.params:
            return self._param(self.definition.params[name])
        if name in self.dims:
            return self.dims[name]
        if name in ALL:
            return Place(self._side(ALL[name]), repeated=True)
        if name.lower() in OWN and self.own is not None:
            return self._of_own(name.lower(), self.own)
        if self._is_enumerator(name):
            return name
        if name.lower() in _TRUTH:
            return _TRUTH[name.lower()]
        dtype = _dtype(name)
        if dtype is None:
            raise UnknownError
        return dtype

    def place(self, name: str, index: int) -> Place | None:
        """Return the tensor ``name[index]``, or None if that names no tensor."""
        place = self.tensors(f"{name}[{index}]")
        if place is not None and not place.repeated:
            return place
        if name not in SIDES or self.tensors(name) is not None:
            return place
        side = self._side(SIDES[name])
        return Place((side[index] if 0 <= index < len(side) else None,))

    def tensors(self, name: str) -> Place | None:
        """Return the tensors of the input or output of a name, or None."""
        found = (self.places or places_of(self.definition)).get(name)
        if found is None:
            return None
        side, index, entry = found
        tensors = self._side(side)
        if entry.repeated:
            return Place(tuple(tensors[index:]), repeated=True)
        return Place((tensors[index] if index < len(tensors) else None,))

    def unknown(self, node: Node) -> str | None:
        """Return the first unbound name of an expression, or None."""
        if node.kind == "name":
            name = str(node.value)
            known = name in ALL or name in SIDES or name in self.dims or name in self.definition.params
            known = known or (name.lower() in OWN and self.own is not None) or self.tensors(name) is not None
            known = known or self._is_enumerator(name) or name.lower() in _TRUTH
            return None if known or _dtype(name) is not None else name
        if node.kind == "index" and self.tensors(node.source) is not None:
            return None
        if node.kind == "index" and self._is_beyond(*node.parts):
            return node.source
        return next((word for part in node.parts if (word := self.unknown(part)) is not None), None)

    def _is_beyond(self, base: Node, index: Node) -> bool:
        """Return whether ``in[7]`` is beyond the tensors that the op can have."""
        side = SIDES.get(str(base.value)) or ALL.get(str(base.value))
        if base.kind != "name" or side is None or not isinstance(index.value, int):
            return False
        held = self.definition.inputs if side == "input" else self.definition.outputs
        return index.kind == "number" and index.value >= len(held) and not (held and held[-1].repeated)

    def _is_enumerator(self, name: str) -> bool:
        return any(name in param.enumeration for param in self.definition.params.values())

    def _side(self, side: str) -> tuple[TensorSpec | None, ...]:
        return self.view.inputs if side == "input" else self.view.outputs

    def _param(self, definition: ParamDef) -> Value:
        if definition.name in self.view.params:
            return _plain(self.view.params[definition.name], definition.enumeration)
        try:
            value = default_value(definition)
        except ValueError:
            value = None
        if value is None:
            raise UnknownError
        if definition.enumeration and isinstance(value, int):
            return Enumerator(definition.enumeration[value], value)
        return value

    def _of_own(self, what: str, own: TensorDef) -> Value:
        if not isinstance(own, ParamDef):
            place = self.tensors(own.name)
            if place is None:
                raise UnknownError
            return about(what, place)
        if what == "number":
            return int(own.name in self.view.params)
        value = self._param(own)
        if what == "value":
            return value
        if what == "datatype":
            raise UnknownError
        dims = dims_of(value)
        return {"rank": len(dims), "shape": dims, "size": math.prod(dims)}[what]


def places_of(definition: OpDef) -> dict[str, tuple[str, int, TensorDef]]:
    """Return side, position and definition of inputs and outputs by name."""
    sides = (("output", definition.outputs), ("input", definition.inputs))
    return {
        entry.name: (side, index, entry)
        for side, entries in sides
        for index, entry in reversed(list(enumerate(entries)))
    }


def _dtype(name: str) -> DType | None:
    try:
        return dtype_of(name) if name.isupper() else None
    except ValueError:
        return None


def _plain(value: Any, names: Sequence[str]) -> Value:
    if hasattr(value, "tolist"):
        return plain(value)
    if names and isinstance(value, str):
        return Enumerator(value, names.index(value)) if value in names else value
    if names and isinstance(value, int) and 0 <= value < len(names):
        return Enumerator(names[value], value)
    return list(value) if isinstance(value, tuple) else value
