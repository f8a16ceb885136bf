"""Runtime ``aip``: the sections of a model's AIP record, on this machine."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from xdlc.api.models import executable
from xdlc.api.runtimes import SHARED, Runtime, RuntimeState, add_runtime, tried
from xdlc.errors import ConstraintError, ContainerError
from xdlc.ir import Model
from xdlc.options import Notify
from xdlc.version import VERSION

if TYPE_CHECKING:
    from xdlc.runtime.sections import SectionSession
    from xdlc.targets import Soc


def _open(
    model: Model, where: str | None = None, *, notify: Notify | None = None, **options: Any
) -> AbstractContextManager[SectionSession]:
    """Return the session of the sections."""
    from xdlc.runtime.sections import SectionSession

    options.pop("use_aip", None)  # it has chosen this runtime
    try:
        session = SectionSession(executable(model, where), records=model.records, **options)
    except ContainerError as error:
        error.where = ": ".join(filter(None, (where, error.where))) or None
        raise
    if notify is not None:
        for line in session.notices:
            notify(line)
    return nullcontext(session)


def _examine(name: str, soc: Soc | None) -> RuntimeState:
    from xdlc.targets import all_socs

    def run(model: Model, stored: Any) -> Any:
        from xdlc.prepare import hta

        if soc is not None and not soc.hta:
            fix = "choose one of " + ", ".join(each.name for each in all_socs() if each.hta)
            raise ConstraintError(f"{soc.name} has no HTA", fix=fix, code="XD109")
        with _open(hta.prepare(model).model) as session:
            return session.run({"x": stored}, native=True)["y"]

    core = "this machine runs HTA sections as graphs on the CPU, and cannot run compiled HTA code"
    return RuntimeState(name, f"xdlc {VERSION}", core, (tried("host", run),))


add_runtime(
    Runtime(
        "aip",
        SHARED | {"use_aip", "notify", "threads"},
        _open,
        _examine,
        describe=lambda session: (f"runs: {session}",),
    ),
)
