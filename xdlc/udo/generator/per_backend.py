"""Packages for one backend each, out of one collection: ``MyPackageCpu``, ``MyPackageHtp``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xdlc.opdefs import Collection
from xdlc.opdefs.collections import reduced
from xdlc.udo.generator.cores import CPU, DSP, DSP_LEGACY, GPU
from xdlc.udo.generator.template_context import OperationView, PackageView, Place

SUFFIXES = {CPU: "Cpu", GPU: "Gpu", DSP_LEGACY: "Dsp", DSP: "Htp"}
"""What QNN appends to the name of a package, by group of cores."""


def collections_of(collection: Collection, view: PackageView) -> Iterator[tuple[Collection, str]]:
    """Yield a collection for each backend of a package, under its own name, with the group of its cores."""
    for group in dict.fromkeys(core.group for core in view.cores):
        types = {op.type for core in view.cores if core.group == group for op in core.ops}
        held, name = reduced(collection, types), f"{collection.package}{SUFFIXES[group]}"
        yield (
            replace(held, package=name, opdefs=tuple(replace(op, package=name) for op in held.opdefs)),
            group,
        )


def restricted(view: PackageView, group: str) -> PackageView:
    """Return a package with the cores of one group alone."""
    cores = tuple(core for core in view.cores if core.group == group)
    names = {core.name for core in cores}

    def places(of: tuple[Place, ...]) -> tuple[Place, ...]:
        return tuple(
            replace(place, types={core: types for core, types in place.types.items() if core in names})
            for place in of
        )

    def own(op: OperationView) -> OperationView:
        return replace(
            op,
            inputs=places(op.inputs),
            outputs=places(op.outputs),
            params=places(op.params),
            cores=tuple(name for name in op.cores if name in names),
        )

    ops = {op.type: own(op) for op in view.ops if set(op.cores) & names}
    held = tuple(replace(core, ops=tuple(ops[op.type] for op in core.ops)) for core in cores)
    return replace(view, ops=tuple(ops.values()), cores=held)
