"""Frontend of Keras."""

from __future__ import annotations

from xdlc.converter import formats
from xdlc.converter.frontends import Frontend, deferred, reads

_convert = deferred("xdlc.converter.keras.convert", "convert")
FRONTEND = Frontend(
    framework="keras",
    model="a Keras model",
    tool="xconv-tensorflow-to-dlc",
    recognizes=reads(formats.KERAS),
    convert=_convert,
)
