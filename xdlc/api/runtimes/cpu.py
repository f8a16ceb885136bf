"""Runtime ``cpu``: onnxruntime, on this machine."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from xdlc.api.models import executable
from xdlc.api.runtimes import SHARED, Runtime, RuntimeState, add_runtime, tried, version_of
from xdlc.ir import Model

if TYPE_CHECKING:
    from xdlc.runtime.cpu import CpuSession
    from xdlc.targets import Soc


def _open(
    model: Model, where: str | None = None, *, graph: str | None = None, **options: Any
) -> AbstractContextManager[CpuSession]:
    from xdlc.runtime.cpu import CpuSession

    return nullcontext(CpuSession(executable(model, where).with_main(graph), **options))


def _examine(name: str, _soc: Soc | None) -> RuntimeState:
    from xdlc.worker.limits import processors

    library = f"onnxruntime {version_of('onnxruntime') or 'not installed'}"

    def run(model: Model, stored: Any) -> Any:
        with _open(model) as session:
            return session.run({"x": stored}, native=True)["y"]

    trial = tried("host", run)
    return RuntimeState(name, library, f"{processors()} processors of this machine", (trial,))


add_runtime(
    Runtime("cpu", SHARED | {"graph", "quantized", "plain", "threads"}, _open, _examine, times_ops=True)
)
