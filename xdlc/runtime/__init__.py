"""Execution of IR graphs: on the host's CPU, or by the vendor's emulation of its accelerator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xdlc.errors import UsageError, nearest_names
from xdlc.lazy import names_of

if TYPE_CHECKING:
    from xdlc.ir import Graph, Model
    from xdlc.runtime.cpu import CpuSession as CpuSession
    from xdlc.runtime.lowered import Lowered as Lowered
    from xdlc.runtime.ops import known_types as known_types
    from xdlc.runtime.ops import lowering as lowering

__all__ = ["CpuSession", "Lowered", "known_types", "lowering", "run"]

RUNTIMES = ("cpu", "htp", "aip")
_HOMES = {
    "CpuSession": ".cpu",
    "Lowered": ".lowered",
    "known_types": ".ops",
    "lowering": ".ops",
}


def run(
    model: Model | Graph,
    feeds: Mapping[str, Any],
    *,
    runtime: str = "cpu",
    native: bool = False,
    **options: Any,
) -> dict[str, Any]:
    """Run a model once and return its outputs by name.

    Args:
        model: A model, of which the main graph runs, or a graph.
        feeds: One array per input.
        runtime: ``cpu`` for onnxruntime, ``htp`` for the vendor's emulation, ``aip`` for the sections of the
            model's AIP record one by one.
        native: Give fixed-point outputs as quantized values instead of float32; ``htp`` then accepts
            quantized values for fixed-point inputs too.
        options: Keyword arguments of :class:`xdlc.runtime.cpu.CpuSession`, of
            :func:`xdlc.runtime.htp.run` or of :class:`xdlc.runtime.sections.SectionSession`.

    Raises:
        UsageError: If the runtime or an input is not known or does not fit.
        XdlcError: What the runtime raises.
    """
    if runtime == "cpu":
        from xdlc.runtime.cpu import CpuSession

        return CpuSession(model, **options).run(feeds, native=native)
    if runtime == "htp":
        from xdlc.runtime import htp

        return htp.run(_whole(model), feeds, native=native, **options)
    if runtime == "aip":
        from xdlc.runtime.sections import SectionSession

        return SectionSession(_whole(model), **options).run(feeds, native=native)
    raise UsageError(
        f"runtime {runtime!r} is not one of {', '.join(RUNTIMES)}",
        fix=nearest_names(runtime, RUNTIMES) or "use one of these",
    )


def _whole(model: Model | Graph) -> Model:
    from xdlc.ir import Model

    return model if isinstance(model, Model) else Model({model.name: model})


__getattr__ = names_of(__name__, _HOMES)
