"""Kernels of UDOs, and the options of other verbs that name them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from xdlc.api.models import loaded
from xdlc.api.options import PathLike, verb
from xdlc.errors import UsageError
from xdlc.ir import Model

if TYPE_CHECKING:
    from xdlc.runtime.udo import Kernels

KERNEL_OPTIONS = ("udo_package_path", "allow_embedded_kernels", "udo_timeout")


@verb
def kernels(
    model: Model | PathLike,
    udo_package_path: PathLike | Sequence[PathLike] | None = None,
    allow_embedded_kernels: bool = False,
    udo_timeout: float | None = None,
) -> Kernels:
    """Return the kernels of a model's UDOs, for any number of sessions.

    They run in a process of their own, which ends when they are closed: use them as a context manager.

    Args:
        model: The model, or the path of a DLC.
        udo_package_path: Registration libraries, and Python files with functions that are marked as kernels.
        allow_embedded_kernels: Load kernels that the DLC carries.
        udo_timeout: Seconds that each call of a kernel may take; default: 60.

    Raises:
        UsageError: If a file is missing, the time-out is not valid, or an option has no effect.
    """
    from xdlc.runtime.udo.kernels import open_kernels

    return open_kernels(loaded(model), udo_package_path, allow_embedded_kernels, udo_timeout)


def take_kernels(model: Model, options: dict[str, Any]) -> dict[str, Any]:
    """Take the options of kernels out of ``options``, and return the option ``kernels`` for them."""
    given = {name: options.pop(name) for name in KERNEL_OPTIONS if name in options}
    if not given:
        return {}
    if "kernels" in options:
        raise UsageError(f"kernels= is given beside {', '.join(given)}", fix="give one or the other")
    return {"kernels": kernels(model, **given)}


@contextmanager
def kernels_to_own(model: Model, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what ``take_kernels`` returns for a session that closes it; it is closed here on an error."""
    with ExitStack() as stack:
        taken = take_kernels(model, options)
        for held in taken.values():
            stack.enter_context(held)
        yield taken
        stack.pop_all()
    _warn_of_unused(taken)


def _warn_of_unused(taken: Mapping[str, Kernels]) -> None:
    """Warn of files without a kernel for the model."""
    for path in [path for held in taken.values() for path in held.unused()]:
        logging.getLogger(__name__).warning("nothing of %s is used: the model has no op that it offers", path)
