"""Arguments of the operators of aten, drawn by the types of their schemas."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from fuzz.differential.edge_numbers import FLOATS, INTEGERS
from fuzz.differential.growing import Grower
from fuzz.differential.networks import Tensor
from fuzz.differential.torch_engine import operator

SHAPES = ((2, 3), (4,), (1, 4, 3), (1, 4, 4, 4), (2, 4, 6, 5), (3, 3), (1, 2, 4, 4, 4), (1,), ())
WORDS = (
    "none",
    "mean",
    "sum",
    "tanh",
    "floor",
    "trunc",
    "reflect",
    "replicate",
    "constant",
    "circular",
    "linear",
    "ij",
    "prod",
    "amax",
    "left",
)
DTYPES = ("#float32", "#int64", "#int32", "#bool", "#float64", "#float16", "#uint8")
IGNORED = {"out", "generator", "device", "pin_memory", "layout", "memory_format", "non_blocking", "copy"}
OMITTED = {
    "rand",
    "randn",
    "randint",
    "dropout",
    "bernoulli",
    "multinomial",
    "normal",
    "randperm",
    "empty",
    "new_empty",
    "rrelu",
    "uniform",
}
"""Operators whose results are random, or not initialized."""
UNDEFINED = {
    # torch repeats the first row where one column is left
    *(f"_upsample_{kind}2d_aa" for kind in ("bilinear", "bicubic", "lanczos")),
    "_weight_norm_interface",
    "searchsorted",
    "bucketize",
    "linalg_cholesky_ex",
    "linalg_lu_factor_ex",
    "linalg_inv_ex",
}
"""Operators that need more of their arguments than a type: sorted numbers, a matrix of which kind."""


@cache
def operators() -> tuple[str, ...]:
    """Return the operators of the importer, each with torch's overloads."""
    import torch

    from xdlc.converter.pytorch.registry import aten

    names = []
    for domain, name in sorted(aten.all()):
        name = name.removeprefix("aten::")
        packet = None if domain or not name.isidentifier() else getattr(torch.ops.aten, name, None)
        if (
            packet is None
            or name in UNDEFINED
            or any(name.startswith(word) for word in OMITTED)
            or name.endswith("_")
        ):
            continue
        for overload in packet.overloads():
            schema = getattr(packet, overload)._schema
            writes = any(
                each.alias_info is not None and each.alias_info.is_write for each in schema.arguments
            )
            if not writes and not any(word in overload for word in ("names", "generator", "Dimname")):
                names.append(f"{name}.{overload}")
    return tuple(names)


def arguments(grower: Grower, op: str, *, share: float = 0.4) -> tuple[list[str], dict[str, Any]] | None:
    """Return inputs and attributes of an operator, or None for unknown types.

    Args:
        grower: The network, whose values tensors are.
        op: The operator.
        share: Share of optional arguments that are given.
    """
    rng = grower.rng
    inputs: list[str] = []
    attributes: dict[str, Any] = {}
    for argument in operator(op)._schema.arguments:
        if (
            argument.name in IGNORED
            or (argument.name == "sorted" and "topk" in op)
            or argument.name == "assume_unique"
            or (argument.has_default_value() and rng.random() > share)
        ):
            if not argument.has_default_value() and argument.name == "out":
                return None
            continue
        kind = str(argument.type)
        if kind.startswith("Optional[") and rng.random() < 0.4:
            attributes[argument.name] = None
            continue
        value = _value(
            grower,
            kind.removeprefix("Optional[").removesuffix("]") if kind.startswith("Optional") else kind,
            argument.name,
            inputs,
        )
        if value is NotImplemented:
            return None
        attributes[argument.name] = value
    return inputs, attributes


def _value(grower: Grower, kind: str, name: str, inputs: list[str]) -> Any:
    rng = grower.rng
    if kind.startswith("List["):
        inner = kind[5:-1]
        if inner == "Tensor" or inner.startswith("Optional[Tensor"):
            return [_value(grower, "Tensor", name, inputs) for _ in range(rng.choice((1, 2, 2)))]
        count = rng.choice((1, 2, 2, 3, 4))
        first = _value(grower, inner, name, inputs)
        return [first if rng.random() < 0.5 else _value(grower, inner, name, inputs) for _ in range(count)]
    if kind == "Tensor":
        inputs.append(_tensor(grower, name))
        return f"@{len(inputs) - 1}"
    if kind in ("int", "SymInt"):
        if name == "dtype":
            return rng.choice(DTYPES)
        return rng.choice((0, 1, 1, 2, 2, 3, -1, -2))
    if kind == "float":
        return rng.choice((0.5, 1.0, 2.0, 0.1, -1.0, 0.0))
    if kind in ("number", "Scalar", "Union[int, float, complex]"):
        return rng.choice((0.5, 1, 2, -1, 2.0, 0, 3))
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "str":
        return rng.choice(WORDS)
    if kind == "ScalarType":
        return rng.choice(DTYPES)
    return NotImplemented


def _tensor(grower: Grower, name: str) -> str:
    rng = grower.rng
    if grower.values and rng.random() < 0.6:
        return rng.choice(list(grower.values))
    shapes = [each.shape for each in grower.values.values()]
    shape = rng.choice(shapes) if shapes and rng.random() < 0.5 else rng.choice(SHAPES)
    if shape and rng.random() < 0.3:
        shape = rng.choice((shape[1:2] or shape, shape[-1:], (shape[-1], rng.choice((1, 2, shape[-1])))))
    dtype = (
        "int64"
        if "ind" in name or "target" in name
        else rng.choice(("float32",) * 6 + ("int64", "int32", "bool"))
    )
    tensor = Tensor(dtype, tuple(shape), None, rng.randrange(10**6))
    return grower.constant(tensor)


def edge_value(rng: random.Random, value: Any) -> Any:
    """Return a value at the edge in place of a usual one; tensors stay."""
    if isinstance(value, list):
        if not value or (rng.random() < 0.15 and not str(value[0]).startswith("@")):
            return rng.choice(([], value * 2, value[:1]))
        place = rng.randrange(len(value))
        return [
            edge_value(rng, each) if index == place or rng.random() < 0.2 else each
            for index, each in enumerate(value)
        ]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice(
            (*INTEGERS, value + 1, value - 1, 10, 0.5) if rng.random() < 0.1 else (*INTEGERS, value + 1)
        )
    if isinstance(value, float):
        return rng.choice((*FLOATS, -value, 3, 0))
    if isinstance(value, str) and value.startswith("#"):
        return rng.choice(DTYPES)
    if isinstance(value, str) and not value.startswith("@"):
        return rng.choice(WORDS)
    return value
