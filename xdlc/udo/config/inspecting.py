"""Checks configurations, alone and together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from xdlc import opdefs
from xdlc.errors import XdlcError, each_problem
from xdlc.udo.config.reader import Config, clashes, read_config


@dataclass(frozen=True, slots=True)
class Inspected:
    """What is to be said of configurations.

    Attributes:
        problems: Everything that is wrong.
        notices: What the user should know.
        summary: A line for each package that is right, and for each of its constraints.
    """

    problems: tuple[XdlcError, ...]
    notices: tuple[str, ...]
    summary: tuple[str, ...]


def inspect(paths: Sequence[str | os.PathLike[str]]) -> Inspected:
    """Return what is to be said of configurations that are used together."""
    problems: list[XdlcError] = []
    summary: list[str] = []
    configs: list[Config] = []
    for path in paths:
        try:
            config = read_config(path)
        except XdlcError as error:
            problems += each_problem(error)
            continue
        configs.append(config)
        for collection in config.collections:
            names = ", ".join(op.name for op in collection.opdefs)
            summary.append(f"{os.fspath(path)}: package {collection.package}: {names}")
        summary += config.rules
    problems += clashes(configs) or _conflicts(configs)
    return Inspected(
        tuple(problems), tuple(text for config in configs for text in config.notices), tuple(summary)
    )


def _conflicts(configs: Sequence[Config]) -> tuple[XdlcError, ...]:
    """Return what keeps packages of one name from becoming one."""
    try:
        opdefs.merge([collection for config in configs for collection in config.collections])
    except XdlcError as error:
        return each_problem(error)
    return ()
