"""One run of a model or a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdlc.ir import Graph, Model, TensorData
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.htp.process import WorkerSession


def run(
    model: Model | Graph,
    feeds: Mapping[str, Any],
    *,
    runtime: str = "cpu",
    native: bool = False,
    **options: Any,
) -> dict[str, Any]:
    if runtime == "htp":
        return run_htp(model, feeds, native=native, **options)
    return CpuSession(model, **options).run(feeds, native=native)


def run_htp(
    model: Model | Graph, feeds: Mapping[str, Any], *, soc: str = "sm8650", native: bool = False
) -> dict[str, Any]:
    """Return the outputs of the main graph on the emulation of a SoC."""
    with WorkerSession.of_model(model, soc) as served:
        return served.run(feeds, native=native)


def run_cache(cache: TensorData | bytes, feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Return the outputs of the first graph of a cache."""
    with WorkerSession.of_cache(cache) as served:
        return served.run(feeds)
