"""``xdlc-graph-prepare --check``: are a DLC's caches usable on devices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from xdlc.cli import params
from xdlc.errors import UsageError

_OWN = ("check", "outputs", "mode", "sdk")
_WITH = (*_OWN, "source")
EXIT_CODES = (
    "With --check: exit code 0 if every device has a usable cache, 5 if one has none, "
    "2 if a name is not known."
)


def options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the check to a tool."""
    for option in (
        click.option("--sdk", metavar="VERSION", help="SDK of the devices.  [default: installed here]"),
        click.option(
            "--mode",
            type=click.Choice(["permissive", "strict"]),
            help="permissive: the cache runs; strict: it uses the device fully.  [default: permissive]",
        ),
        click.option(
            "--outputs",
            callback=params.names,
            metavar="T1,T2",
            help="With --check: tensors that will be asked for.  [default: the graph's outputs]",
        ),
        click.option(
            "--check",
            callback=params.names,
            metavar="SOC,SOC..",
            help="Compile nothing, but tell which of the caches in the DLC are usable on these devices.",
        ),
    ):
        function = option(function)
    return function


def is_asked(params: Mapping[str, Any]) -> bool:
    """Return whether the tool was called to check, and nothing else.

    Raises:
        UsageError: If options of checking and of compiling are given together.
    """
    context = click.get_current_context()
    given = [
        param
        for param in context.command.params
        if param.name in params and context.get_parameter_source(param.name) == ParameterSource.COMMANDLINE
    ]
    check = bool(params["check"])
    wrong = [param.opts[0] for param in given if (param.name not in _WITH if check else param.name in _OWN)]
    if wrong and check:
        raise UsageError(
            f"{wrong[0]} does not go with --check, which compiles nothing", fix="leave one of the two out"
        )
    if wrong:
        raise UsageError(f"{wrong[0]} goes with --check", fix=f"add --check SOC, or leave {wrong[0]} out")
    return check


def show(
    source: Path, check: tuple[str, ...], outputs: tuple[str, ...], mode: str | None, sdk: str | None
) -> None:
    """Print a row for each cache and device.

    Raises:
        ConstraintError: If a device has no usable cache.
    """
    from xdlc import api
    from xdlc.cli.cache_records import table_lines
    from xdlc.errors import raise_all
    from xdlc.runtime.htp.cache_verdict import device_soc, lacking, table

    devices = list(dict.fromkeys(map(device_soc, check)))
    model = api.load(source)
    rows = table(model, devices, outputs=outputs or None, modes=[mode or "permissive"], sdk=sdk)
    for line in table_lines({"verdicts": [row.words() for row in rows], "without_htp": []}):
        click.echo(line)
    raise_all(lacking(model, rows, devices), where=str(source))
