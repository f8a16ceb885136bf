"""Frontend of Keras."""

from __future__ import annotations

from pathlib import Path

from xdlc.converter import formats
from xdlc.converter.frontends import Frontend, deferred


def _recognizes(_path: Path, found: formats.Format | None) -> bool:
    return found is formats.KERAS


_convert = deferred("xdlc.converter.keras.convert", "convert")
FRONTEND = Frontend(
    framework="keras",
    model="a Keras model",
    tool="xconv-tensorflow-to-dlc",
    recognizes=_recognizes,
    convert=_convert,
)
