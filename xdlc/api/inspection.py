"""What a device can use of a model, and what this machine can do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdlc.api.models import loaded
from xdlc.api.options import PathLike, verb
from xdlc.ir import Model

if TYPE_CHECKING:
    from xdlc.prepare.platform import Machine
    from xdlc.runtime.htp.cache_verdict import Verdict


@verb
def verdicts(
    model: Model | PathLike,
    device: str,
    *,
    outputs: Sequence[str] | None = None,
    mode: str = "permissive",
    sdk: str | None = None,
) -> list[Verdict]:
    """Return for each compiled HTP cache of a model whether a device can use it, and what keeps it from it.

    Args:
        model: The model, or the path of a DLC.
        device: Name of the device's SoC, like ``sm8450``.
        outputs: Names of the tensors that are wanted; default: the graph's outputs.
        mode: ``permissive``: a cache runs; ``strict``: it uses the device fully.
        sdk: SDK of the device, like ``2.40``; default: that of the installed library.

    Raises:
        UsageError: If the SoC, an option or an output is not known.
        ConstraintError: If the device has no HTP.
    """
    from xdlc.runtime.htp.cache_verdict import verdicts as verdicts_of

    return verdicts_of(loaded(model), device, outputs=outputs, mode=mode, sdk=sdk)


@verb
def check_platform(runtimes: Sequence[str] | None = None, soc: str | None = None) -> Machine:
    """Return what this machine can do, after trying it.

    Args:
        runtimes: Names of the runtimes to try, out of ``cpu``, ``htp`` and ``aip``; default: all of them.
        soc: Name of the one SoC to tell of and to emulate; default: all, and one of each architecture.

    Raises:
        UsageError: If a runtime or the SoC is not known.
    """
    from xdlc.prepare import platform

    return platform.check_platform(platform.RUNTIMES if runtimes is None else runtimes, soc)
