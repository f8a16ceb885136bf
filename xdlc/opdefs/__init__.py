"""Definitions of operations, and the check of graphs against them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdlc.lazy import names_of

if TYPE_CHECKING:
    from xdlc.opdefs.backend_view import only_default, resolve
    from xdlc.opdefs.collections import merge
    from xdlc.opdefs.defaults import default_value, parse_default
    from xdlc.opdefs.lint import notices
    from xdlc.opdefs.loader import all_types, find, read_collection, supplement
    from xdlc.opdefs.model import (
        Collection,
        Constraint,
        DescriptionPart,
        OpDef,
        ParamDef,
        Reference,
        Supplement,
        SupplementOp,
        SupplementTable,
        SupplementTensor,
        TensorDef,
    )
    from xdlc.opdefs.semantics import check_collection, duplicate
    from xdlc.opdefs.shapes.base import verify_shapes
    from xdlc.opdefs.verify import verify_graph, verify_op, verify_udos
    from xdlc.opdefs.xml_reader import collection_lines, parse_collection, read_valid, validate_xml
    from xdlc.opdefs.xml_writer import write_collection

__all__ = [
    "Collection",
    "Constraint",
    "DescriptionPart",
    "OpDef",
    "ParamDef",
    "Reference",
    "Supplement",
    "SupplementOp",
    "SupplementTable",
    "SupplementTensor",
    "TensorDef",
    "all_types",
    "check_collection",
    "collection_lines",
    "default_value",
    "duplicate",
    "find",
    "merge",
    "notices",
    "only_default",
    "parse_collection",
    "parse_default",
    "read_collection",
    "read_valid",
    "resolve",
    "supplement",
    "validate_xml",
    "verify_graph",
    "verify_op",
    "verify_shapes",
    "verify_udos",
    "write_collection",
]

_HOMES = {
    "collection_lines": ".xml_reader",
    "parse_collection": ".xml_reader",
    "read_valid": ".xml_reader",
    "validate_xml": ".xml_reader",
    "verify_udos": ".verify",
    "default_value": ".defaults",
    "parse_default": ".defaults",
    "all_types": ".loader",
    "find": ".loader",
    "read_collection": ".loader",
    "supplement": ".loader",
    "merge": ".collections",
    "Collection": ".model",
    "Constraint": ".model",
    "DescriptionPart": ".model",
    "OpDef": ".model",
    "ParamDef": ".model",
    "Reference": ".model",
    "Supplement": ".model",
    "SupplementOp": ".model",
    "SupplementTable": ".model",
    "SupplementTensor": ".model",
    "TensorDef": ".model",
    "notices": ".lint",
    "only_default": ".backend_view",
    "resolve": ".backend_view",
    "check_collection": ".semantics",
    "duplicate": ".semantics",
    "verify_graph": ".verify",
    "verify_op": ".verify",
    "verify_shapes": ".shapes.base",
    "write_collection": ".xml_writer",
}
__getattr__ = names_of(__name__, _HOMES)
