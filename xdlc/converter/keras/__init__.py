"""Importer of Keras files: ``.keras`` archives and HDF5 files."""

from __future__ import annotations

from xdlc.converter import formats
from xdlc.converter.frontends import Frontend, reader, reads

FRONTEND = Frontend(
    framework="keras",
    model="a Keras model",
    tool="xconv-tensorflow-to-dlc",
    recognizes=reads(formats.KERAS),
    read=reader("keras"),
    has_drafts=False,
)
