"""The flags of tools that run users' operations: where kernels come from, and how long one may take."""

from __future__ import annotations

from collections.abc import Callable

import click


def kernel_flags(function: Callable[..., None]) -> Callable[..., None]:
    """Add the flags; those not given are None."""
    for option in reversed(
        (
            click.option(
                "--udo_package_path",
                metavar="FILE,FILE..",
                help="Registration libraries, or .py files with kernels, of users' ops in the model.",
            ),
            click.option(
                "--allow_embedded_kernels",
                is_flag=True,
                default=None,
                help="Run kernels that the DLC itself carries: only if you trust where it is from.",
            ),
            click.option(
                "--udo_timeout",
                type=float,
                metavar="SECONDS",
                help="What one execution of a user's op may take.  [default: 60]",
            ),
        )
    ):
        function = option(function)
    return function
