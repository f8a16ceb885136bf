"""Formats in which kernels of plugins get tensors: real packings, with the way back."""

from __future__ import annotations

from xdlc.errors import UsageError, nearest_names
from xdlc.udo.plugin.formats.base import Format
from xdlc.udo.plugin.formats.fractal_z import FractalZ
from xdlc.udo.plugin.formats.nc1hwc0 import Nc1hwc0
from xdlc.udo.plugin.formats.nchw import Nchw
from xdlc.udo.plugin.formats.nd import Nd
from xdlc.udo.plugin.formats.nhwc import Nhwc

__all__ = ["FORMATS", "Format", "find_format"]

FORMATS: dict[str, Format] = {found.name: found for found in (Nd(), Nchw(), Nhwc(), Nc1hwc0(), FractalZ())}


def find_format(name: str) -> Format:
    """Return a format by name.

    Raises:
        UsageError: If there is none of that name.

    Example:
        >>> find_format("NC1HWC0").packed_shape((1, 20, 4, 4), 4)
        (1, 2, 4, 4, 16)
    """
    if not isinstance(name, str) or name not in FORMATS:
        raise UsageError(
            f"there is no format {name!r}",
            fix=nearest_names(str(name), FORMATS) or f"use one of {', '.join(FORMATS)}",
        )
    return FORMATS[name]
