"""ND: any number of axes, in the order of the source."""

from __future__ import annotations

from xdlc.udo.plugin.formats.base import Plain


class Nd(Plain):
    """As the source has it."""

    name = "ND"
