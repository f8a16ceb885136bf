"""Packages for one backend each, out of one collection: ``MyPackageCpu``, ``MyPackageHtp``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from xdlc.opdefs import Collection
from xdlc.opdefs.collections import reduced
from xdlc.opdefs.supplements import offers_of
from xdlc.udo.generator.cores import CPU, DSP, DSP_LEGACY, GPU, cores_of
from xdlc.udo.generator.template_context import PackageView

SUFFIXES = {CPU: "Cpu", GPU: "Gpu", DSP_LEGACY: "Dsp", DSP: "Htp"}
"""What QNN appends to the name of a package, by group of cores."""


def collections_of(collection: Collection, view: PackageView) -> Iterator[Collection]:
    """Yield a collection for each backend of a package, under its own name and with that backend alone."""
    for group in dict.fromkeys(core.group for core in view.cores):
        types = {op.type for core in view.cores if core.group == group for op in core.ops}
        held, name = reduced(collection, types), f"{collection.package}{SUFFIXES[group]}"
        ops = [
            replace(op, package=name, backends=_own(offers_of(op, collection), group)) for op in held.opdefs
        ]
        tables = [table for table in held.supplements if table.ops and _own([table.backend], group)]
        tables = [replace(table, supported=frozenset()) for table in tables]
        yield replace(held, package=name, opdefs=tuple(ops), supplements=tuple(tables))


def _own(backends: Iterable[str], group: str) -> tuple[str, ...]:
    """Return the backends of a group, sorted; of ``DSP``, which is in two, the processor."""
    found = ((name, core, len(cores_of(name))) for name in backends for core in cores_of(name))
    return tuple(sorted({core.name if n > 1 else name for name, core, n in found if core.group == group}))
