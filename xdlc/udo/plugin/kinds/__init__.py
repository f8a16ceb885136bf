"""Kinds of parameters that a plugin declares: what a source's attribute may be, and how the op stores it.

=========== ============================ ==========================================
Kind        Attribute of the source      Parameter of the op
=========== ============================ ==========================================
``Int``     integer                      scalar, int32 unless told otherwise
``Float``   float; an integer            scalar, float32
``Bool``    integer 0 or 1               scalar, bool8
``Str``     string                       string
``Enum``    name, or number of a name    scalar, uint32, which counts the names
``Tensor``  tensor                       tensor
``Ints``    list of integers             tensor of one axis, int32
``Floats``  list of floats               tensor of one axis, float32
``Bools``   list of 0 and 1              tensor of one axis, bool8
``Strs``    list of strings              string: a JSON list, as there are no tensors of strings
=========== ============================ ==========================================

A list of tensors has no form in a model.
"""

from __future__ import annotations

from xdlc.udo.plugin.kinds.base import REQUIRED, Kind
from xdlc.udo.plugin.kinds.enum import Enum, enum_map
from xdlc.udo.plugin.kinds.lists import Bools, Floats, Ints, Strs
from xdlc.udo.plugin.kinds.scalar import Bool, Float, Int, Str
from xdlc.udo.plugin.kinds.tensor import Tensor

__all__ = [
    "REQUIRED",
    "Bool",
    "Bools",
    "Enum",
    "Float",
    "Floats",
    "Int",
    "Ints",
    "Kind",
    "Str",
    "Strs",
    "Tensor",
    "enum_map",
]
