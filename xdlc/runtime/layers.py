"""The numbers by which HTA sections and their users refer to ops."""

from __future__ import annotations

from xdlc.ir import Model, Op


def layer_ids(model: Model) -> dict[Op, int]:
    """Return the layer id of each op of the main graph, in order; never falling from op to op.

    It is the op's position, counted from 0.  Ops translated from a container of format 3 have the number of
    the layer that they stand for; several may share one, and layers without ops have none.
    """
    given = model.metadata.get("layers", {})
    found: dict[Op, int] = {}
    last = 0
    for position, op in enumerate(model.main.ops):
        last = max(last, given.get(op.name, last)) if given else position
        found[op] = last
    return found
