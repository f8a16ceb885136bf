"""Extents of outputs as expressions, where the configuration's texts tell them."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.udo.generator.views import Place, Rule


def shape_rules(inputs: Sequence[Place], outputs: Sequence[Place]) -> tuple[Rule, ...] | None:
    """Return the extents of each output as expressions of C, or None if the texts do not tell them."""
    return None
