"""Stores in a model what is known of its custom ops: their definitions, and kernels that come with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from xdlc import ir
from xdlc.container import udo
from xdlc.opdefs.custom import CustomOp, CustomOps
from xdlc.opdefs.model import Collection


def store_definitions(model: ir.Model, custom: CustomOps) -> None:
    """Store the definitions of the custom ops of a model."""
    udo.add_definitions(model, _completed(custom.ops, custom.collections))


def _completed(ops: Sequence[CustomOp], collections: Mapping[str, Collection]) -> dict[str, Collection]:
    """Return the collections, with ops that no collection tells of."""
    found = dict(collections)
    for op in ops:
        package = op.definition.package
        held = found.get(package, Collection(package, package, "1.0", (), ()))
        if all(opdef.name != op.definition.name for opdef in held.opdefs):
            found[package] = replace(held, opdefs=(*held.opdefs, op.definition))
    return found
