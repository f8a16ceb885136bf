"""Arguments of calls as saved programs hold them."""

from __future__ import annotations

from typing import Any

import numpy as np

from xdlc.converter.pytorch.calls import Ref, ScalarType, SymbolRef

DTYPES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8}
DTYPES |= {"complex64": 10, "bool": 12, "bfloat16": 13}
"""Numbers of data types in saved programs."""


def argument(value: Any, kind: str = "") -> dict[str, Any]:
    """Return an argument of a call, or an output, as JSON."""
    if value is None:
        return {"as_none": True}
    if isinstance(value, Ref):
        return {"as_tensor": {"name": value}}
    if isinstance(value, SymbolRef):
        return {"as_sym_int": {"as_name": value}}
    if hasattr(value, "document"):  # a program
        return {"as_graph": {"name": "graph", "graph": value.document()["graph_module"]["graph"]}}
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return {"as_scalar_type": DTYPES[str(np.dtype(value))]}
    if isinstance(value, ScalarType):
        return {"as_scalar_type": int(value) + 1}
    if isinstance(value, list | tuple):
        return _many(list(value), kind)
    return {"as_float" if kind == "F" else f"as_{_TYPES[type(value)]}": value}


_TYPES = {bool: "bool", int: "int", float: "float", str: "string"}


def _many(values: list[Any], kind: str) -> dict[str, Any]:
    if kind.startswith("T") or any(isinstance(value, Ref) for value in values):
        if None not in values and not kind.startswith("T?"):
            return {"as_tensors": [{"name": value} for value in values]}
        none = {"as_none": True}
        items = [none if value is None else {"as_tensor": {"name": value}} for value in values]
        return {"as_optional_tensors": items}
    if any(isinstance(value, SymbolRef) for value in values):
        items = [
            {"as_name": value} if isinstance(value, SymbolRef) else {"as_int": value} for value in values
        ]
        return {"as_sym_ints": items}
    if values and isinstance(values[0], bool):
        return {"as_bools": values}
    floats = kind.startswith("F") or any(isinstance(value, float) for value in values)
    return {"as_floats" if floats else "as_ints": values}
