"""Renders the files of a package."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from xdlc.udo.generator import cpp, gpu, htp, literals, samples
from xdlc.udo.generator.build_context import place_text
from xdlc.udo.generator.files import FILES, FileRule
from xdlc.udo.generator.quoting import FILTERS, finalize
from xdlc.udo.generator.template_context import CoreView, OperationView, PackageView

TEMPLATES = Path(__file__).parent / "templates"
HEADER = Path(__file__).parents[2] / "runtime" / "udo" / "include" / "xdlc_udo.h"


@dataclass(frozen=True, slots=True)
class Rendered:
    """A file of a package.

    Attributes:
        path: Its path in the package, with ``/``.
        content: What is in it.
        user: Whether it is for users to fill.
    """

    path: str
    content: bytes
    user: bool = False


def render(package: PackageView) -> list[Rendered]:
    """Return the files of a package, sorted by path."""
    found = [Rendered("include/xdlc_udo.h", HEADER.read_bytes())]
    for rule in FILES:
        found += (_file(rule, package, core, op) for core, op in _each(rule, package))
    return sorted(found, key=lambda file: file.path)


def _each(rule: FileRule, package: PackageView) -> Iterator[tuple[CoreView | None, OperationView | None]]:
    """What a rule makes files for."""
    cores: list[CoreView | None] = [core for core in package.cores if core.group == rule.group]
    if not rule.group:
        cores = [None]
    if rule.per == "package":
        if cores and (rule.when is None or rule.when(package)):
            yield None, None
        return
    for core in cores:
        if rule.source and core is not None and core.owner != core.name:
            continue
        if rule.per == "core":
            yield core, None
            continue
        for op in package.ops if core is None else core.ops:
            if rule.when is None or rule.when(op):
                yield core, op


def _file(rule: FileRule, package: PackageView, core: CoreView | None, op: OperationView | None) -> Rendered:
    path = rule.target.format(package=package.name, core=core.name if core else "", op=op.type if op else "")
    return Rendered(path, _text(rule.template, package=package, core=core, op=op), rule.user)


def _text(template: str, **values: Any) -> bytes:
    text: str = _environment().get_template(f"{template}.j2").render(values)
    return text.encode()


@cache
def _environment() -> Any:
    from jinja2 import FileSystemLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        finalize=finalize,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    for module in (cpp, gpu, htp, literals, samples):
        environment.filters |= module.FILTERS
    environment.filters |= FILTERS | {"place_text": place_text}
    return environment
