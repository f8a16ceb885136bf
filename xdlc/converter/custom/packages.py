"""Gives all native operations of a model another op package."""

from __future__ import annotations

import re

from xdlc import ir
from xdlc.errors import UsageError

_NAME = re.compile(r"(?=.{1,128}$)[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


def check_package_name(name: str) -> None:
    """Refuse what cannot be a package of native operations.

    Raises:
        UsageError: If it is none, or a package that has a meaning of its own.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"package_name is {name!r}",
            fix="give letters, digits and _, no digit first; dots may stand between such names",
        )
    if name in (ir.HOST_PACKAGE, "snpe"):
        raise UsageError(f"package_name is {name!r}, whose ops are xdlc's own", fix="give another name")


def rename_package(model: ir.Model, name: str, notices: list[str]) -> None:
    """Put every native op into a package, and tell what that means.

    Args:
        model: The model.
        name: The package.
        notices: Takes the notice.
    """
    if name == ir.NATIVE_PACKAGE:
        return
    count = 0
    for graph in model.graphs.values():
        for op in graph.ops:
            if op.package == ir.NATIVE_PACKAGE:
                op.package = name
                count += 1
    notices.append(
        f"{count} op(s) are of package {name!r} instead of {ir.NATIVE_PACKAGE!r}: only a runtime that loads "
        "this package runs them, and xdlc quantizes, runs and prepares them by no rules of its own"
    )
