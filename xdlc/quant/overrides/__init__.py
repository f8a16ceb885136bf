"""Encodings of files from the vendor and AIMET: read, matched, and written."""

from xdlc.quant.overrides.export import export_encodings, save_encodings
from xdlc.quant.overrides.override import Grain, Override
from xdlc.quant.overrides.reading import Overrides, read_overrides
from xdlc.quant.overrides.versions import ENCODING_VERSIONS

__all__ = [
    "ENCODING_VERSIONS",
    "Grain",
    "Override",
    "Overrides",
    "export_encodings",
    "read_overrides",
    "save_encodings",
]
