"""Definitions of operations, and the check that a graph keeps to them."""

from xdlc.opdefs.extents import verify_extents
from xdlc.opdefs.loader import all_types, find, read_collection, supplement, validate_xml
from xdlc.opdefs.model import Collection, Constraint, OpDef, ParamDef, Supplement, TensorDef
from xdlc.opdefs.verify import verify_graph, verify_op

__all__ = [
    "Collection",
    "Constraint",
    "OpDef",
    "ParamDef",
    "Supplement",
    "TensorDef",
    "all_types",
    "find",
    "read_collection",
    "supplement",
    "validate_xml",
    "verify_extents",
    "verify_graph",
    "verify_op",
]
