"""From configuration files to the operations that a conversion knows."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from xdlc import opdefs
from xdlc.errors import raise_all
from xdlc.opdefs.source_match import Udo, UdoSet
from xdlc.udo.config.output_layouts import with_output_layouts
from xdlc.udo.config.reader import Config, clashes, read_config

_log = logging.getLogger(__name__)
PathLike = str | os.PathLike[str]
Paths = PathLike | Sequence[PathLike] | None


def configured_ops(
    udo_config_paths: Paths = None,
    op_package_config: Paths = None,
    notify: Callable[[str], None] | None = None,
) -> UdoSet:
    """Return the operations that configurations define.

    Packages of one name are merged; a file that is named twice counts once.  An operation stands for the
    operator of its name, in any domain of the source model.

    Args:
        udo_config_paths: JSON UDO configurations or OpDef XML; a path or several.
        op_package_config: The same, under the name that QNN's converters use.
        notify: Is given what the user should know; default: the log.

    Raises:
        StorageError: If a file cannot be read.
        ModelError: If one breaks a rule; a ProblemList of all problems if there are several.
    """
    configs = [
        read_config(path) for path in _distinct((*_listed(udo_config_paths), *_listed(op_package_config)))
    ]
    raise_all(clashes(configs))
    notify = notify or _log.warning
    for config in configs:
        for notice in config.notices:
            notify(notice)
    configs = [_laid_out(config, notify) for config in configs]
    collections = opdefs.merge([package for config in configs for package in config.collections])
    return UdoSet(tuple(op for config in configs for op in _ops(config)), collections)


def _laid_out(config: Config, notify: Callable[[str], None]) -> Config:
    """Return a configuration whose outputs have the layout of the inputs where it says nothing of them."""
    collections = []
    for p, collection in enumerate(config.collections):
        found = []
        for i, definition in enumerate(collection.opdefs):
            made, notice = with_output_layouts(definition)
            if notice:
                notify(f"{config.places[p, i]}: {notice}")
            found.append(made)
        collections.append(replace(collection, opdefs=tuple(found)))
    return replace(config, collections=tuple(collections))


def _ops(config: Config) -> Iterable[Udo]:
    for p, collection in enumerate(config.collections):
        every = config.op_lines(p)
        for i, definition in enumerate(collection.opdefs):
            yield Udo(definition, source=config.places[p, i], lines=every[i])


def _listed(paths: Paths) -> tuple[PathLike, ...]:
    if paths is None:
        return ()
    return (paths,) if isinstance(paths, str | os.PathLike) else tuple(paths)


def _distinct(paths: Sequence[PathLike]) -> list[PathLike]:
    seen: set[Path] = set()
    found = []
    for path in paths:
        real = Path(os.path.realpath(path))
        if real not in seen:
            found.append(path)
        seen.add(real)
    return found
