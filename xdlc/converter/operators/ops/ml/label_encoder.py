"""LabelEncoder."""

from __future__ import annotations

from typing import Any

import numpy as np

from xdlc.converter.builder import Builder
from xdlc.converter.operators.ops._compose import compare, joined, number, select
from xdlc.converter.operators.ops.ml._features import gathered, greatest, narrow
from xdlc.converter.operators.registry import ML, Node, importer
from xdlc.converter.values import Value
from xdlc.ir import TensorData
from xdlc.ir.data import Array
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32
from xdlc.opdefs.elementwise_enums import EQUAL

_TYPES: dict[str, tuple[type[np.generic], Any]] = {"int64": (np.int64, -1), "float": (np.float32, -0.0)}
_NONE_FITS, _WITH_NAN = 0.5, 4
"""Score of the default, and the version from which on NaN is a key."""


@importer("LabelEncoder", domain=ML, since=2)
def label_encoder(node: Node, b: Builder) -> Value:
    """Find each element among the keys, and gather its value, or the default."""
    x = node.required(0)
    keys, _ = _listed(node, "keys")
    values, default = _listed(node, "values")
    if len(keys) != len(values):
        raise node.invalid(f"{len(keys)} keys and {len(values)} values")
    numbers, x = keys.dtype == np.int64, b.reshape(x, (1,)) if not x.rank else x
    if numbers:
        x, keys = b.cast(x, INT32), narrow(node, keys)
    of_nan = values[np.isnan(keys)][:1] if not numbers and node.opset >= _WITH_NAN else values[:0]
    kept = np.sort(np.unique(keys, return_index=True)[1])  # of a repeated key, the first one counts
    kept = kept[~np.isnan(keys[kept])]
    fits = b.cast(compare(b, EQUAL, b.reshape(x, (*x.shape, 1)), b.const(keys[kept])), FLOAT32)
    b.check_table(x.size)
    rest = b.const(np.full((*x.shape, 1), _NONE_FITS, np.float32))
    index = greatest(b, joined(b, [fits, rest], x.rank))
    table = np.append(values[kept], np.asarray([default], values.dtype))
    if of_nan.size:
        nan = b.unary("IsNan", x, dtype=BOOL8)
        index = select(b, nan, number(b, index, len(table)), index)
    labels = gathered(node, b, np.append(table, of_nan), index)
    return b.reshape(labels, node.required(0).shape)


def _listed(node: Node, name: str) -> tuple[Array, Any]:
    """Return the keys or values, and the default of their type."""
    tensor = node.attr(f"{name}_tensor")
    if isinstance(tensor, TensorData):
        array = tensor.numpy().reshape(-1)
        kind = {"int64": "int64", "float32": "float"}.get(array.dtype.name)
        stored = node.attr("default_tensor") if name == "values" else None
        default = stored.numpy().reshape(-1)[0] if isinstance(stored, TensorData) else None
    else:
        kind = next((kind for kind in _TYPES if node.attr(f"{name}_{kind}s")), None)
        array, default = np.asarray([] if kind is None else node.attr(f"{name}_{kind}s")), None
    if kind is None:
        raise node.problem(
            f"its {name} are not 32- or 64-bit numbers", "map strings to numbers before the network"
        )
    dtype, missing = _TYPES[kind]
    if name == "values":
        for other in ("int64", "float", "string"):
            stated = node.attr(f"default_{other}")
            default = stated if other == kind and default is None else default
    return array.astype(dtype), missing if default is None else default
