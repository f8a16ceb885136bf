"""What keeps a node from being an op of a user's package: found one by one, reported together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdlc.errors import UnsupportedOp, raise_all
from xdlc.opdefs.source_match import Udo

OPTIONAL = "make it optional in the definition: Mandatory false (xdlc_mandatory in JSON)"


class Issue(NamedTuple):
    """Something about a node that does not fit its definition."""

    text: str
    fix: str


def raise_issues(custom: Udo, issues: Sequence[Issue]) -> None:
    """Raise what was found, if anything.

    Raises:
        UnsupportedOp: For one; a ProblemList for several.
    """
    stated = f" (from {custom.source})" if custom.source else ""
    raise_all([UnsupportedOp(f"{full_name(custom)}{stated}: {text}", fix=fix) for text, fix in issues])


def full_name(custom: Udo) -> str:
    """Return the package and type of an op, for messages."""
    return f"{custom.definition.package}::{custom.definition.name}"
