"""Kernels as the tools' options name them."""

from __future__ import annotations

from collections.abc import Iterable

from xdlc.errors import UsageError
from xdlc.ir import Model
from xdlc.runtime.udo.kernels import Kernels
from xdlc.runtime.udo.sources import DEFAULT_TIMEOUT, PathLike, embedded_in, paths_of


def open_kernels(
    model: Model,
    udo_package_path: PathLike | Iterable[PathLike] | None = None,
    allow_embedded_kernels: bool = False,
    udo_timeout: float | None = None,
) -> Kernels:
    """Return the kernels of users' ops of a model; close them in the end.

    Args:
        model: The model.
        udo_package_path: Registration libraries and Python files with kernels: paths, or a text with commas
            between them.
        allow_embedded_kernels: Load kernels that the model carries.
        udo_timeout: Seconds that each call of a kernel may take; default: 60.

    Raises:
        UsageError: If a file is not there, the time-out is not valid, or an option has nothing to work on.
        ContainerError: If a record of the model is damaged.
    """
    if allow_embedded_kernels and not embedded_in(model):
        raise UsageError(
            "the model carries no kernels that --allow_embedded_kernels could allow",
            fix="leave the option out",
        )
    paths = paths_of(udo_package_path)
    if udo_timeout is not None and not paths and not allow_embedded_kernels:
        raise UsageError(
            "--udo_timeout is given, but no kernels are",
            fix="give --udo_package_path or --allow_embedded_kernels, or leave it out",
        )
    seconds = DEFAULT_TIMEOUT if udo_timeout is None else udo_timeout
    return Kernels(paths, model=model, embedded=allow_embedded_kernels, timeout=seconds)
