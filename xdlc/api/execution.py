"""Running a model on this machine: on the CPU, by sections, on the vendor's emulation."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xdlc.api.custom_kernels import KERNEL_OPTIONS, kernels_for, kernels_to_own
from xdlc.api.models import executable, loaded
from xdlc.api.options import Array, PathLike, by_name, check_options
from xdlc.errors import ContainerError, raise_all
from xdlc.ir import Model

if TYPE_CHECKING:
    from xdlc.runtime.htp.session import HtpSession
    from xdlc.runtime.sections import SectionSession


def run(
    model: Model | PathLike, feeds: Mapping[str, Array], runtime: str = "cpu", **options: Any
) -> dict[str, Array]:
    """Return the outputs of a model on this machine, by name.

    Args:
        model: The model, or the path of a DLC.
        feeds: Input arrays by name, in the layout of the graph's inputs.
        runtime: ``cpu`` (onnxruntime), ``htp`` (the vendor's emulation), or ``aip``: what ``sections`` does.
        **options: Further options of the runtime, like ``soc="sm8650"`` for ``htp``, and those of ``kernels``
            for ``cpu`` and ``aip``.

    Raises:
        UsageError: If the runtime, an option or an input name is not known.
        BackendError: If the engine is missing or fails.
    """
    from xdlc.runtime import run as run_model

    if runtime == "cpu":
        from xdlc.runtime import CpuSession

        check_options("runtime cpu", CpuSession, options, more=("native", *KERNEL_OPTIONS))
        whole = executable(model)
        with kernels_for(whole, options) as given:
            return run_model(whole, by_name(feeds, "feeds"), **options, **given)
    elif runtime == "htp":
        from xdlc.runtime import htp

        check_options("runtime htp", htp.run, options)
    elif runtime == "aip":
        native = bool(options.pop("native", False))
        with sections(model, **options) as session:
            return session.run(by_name(feeds, "feeds"), native=native)
    return run_model(executable(model), by_name(feeds, "feeds"), runtime=runtime, **options)


def sections(model: Model | PathLike, **options: Any) -> SectionSession:
    """Return a session that runs a model section by section, as its AIP record divides it.

    Sections on HTA that xdlc has compiled run as compiled, all others on the CPU.  Use it as a context
    manager, or call ``close``: it closes the kernels that were opened for it.

    Args:
        model: The model, or the path of a DLC.
        **options: Options of :class:`xdlc.runtime.sections.SectionSession` and of ``kernels``.

    Raises:
        UsageError: If an option is not known.
        ContainerError: If there is no AIP record, or it is damaged, or does not fit the model.
        XdlcError: As ``executable`` does.
    """
    from xdlc.runtime.sections import SectionSession

    check_options("sections", SectionSession, options, more=KERNEL_OPTIONS)
    whole = executable(model)
    try:
        with kernels_to_own(whole, options) as given:
            session = SectionSession(whole, **{"records": loaded(model).records, **options, **given})
            session.own(*given.values())
    except ContainerError as error:
        if not isinstance(model, Model):
            error.where = ": ".join(filter(None, (os.fspath(model), error.where)))
        raise
    return session


def emulation(
    model: Model | PathLike, soc: str | None = None, *, cpu_fallback: bool = False, **options: Any
) -> HtpSession:
    """Return a session that runs a model on the vendor's emulation of a SoC, as often as wanted.

    It takes the cache of the model that fits best, or compiles the model.  Use it as a context
    manager, or call ``close``.

    Args:
        model: The model, or the path of a DLC.
        soc: Name of the SoC; default: that of the first usable cache, or else sm8650.
        cpu_fallback: Run what the SoC's HTP refuses on the CPU, and only the rest on the emulation.
        **options: Options of :class:`xdlc.runtime.htp.session.HtpSession`, and those of ``kernels``.

    Raises:
        UsageError: If an option is not known.
        XdlcError: As ``executable`` and the session do.
    """
    from xdlc.runtime.htp.session import HtpSession

    check_options("emulation", HtpSession, options, more=("cpu_fallback", *KERNEL_OPTIONS))
    tell = options.get("tell", lambda text: None)

    def divide(source: Model, name: str) -> Model:
        from xdlc.prepare.htp import prepare_all

        bare = Model(dict(source.graphs), source.metadata | {"cacheList": []})
        prepared = prepare_all(bare, [name], partition=True)
        for text in prepared.notices:
            tell(text)
        raise_all(prepared.problems)
        return prepared.model

    if cpu_fallback:
        options["divide"] = divide
    whole = executable(model)
    with kernels_to_own(whole, options) as given:
        session = HtpSession(whole, soc, **options, **given)
        session.own(*given.values())
    return session
