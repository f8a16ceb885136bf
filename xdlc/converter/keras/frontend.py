"""Frontend of Keras."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdlc.converter import formats
from xdlc.converter.frontends import Frontend

if TYPE_CHECKING:
    from xdlc.ir import Model


def _recognizes(_path: Path, found: formats.Format | None) -> bool:
    return found is formats.KERAS


def _convert(path: Any, **options: Any) -> Model:
    from xdlc.converter.keras.convert import convert

    return convert(path, **options)


FRONTEND = Frontend(
    framework="keras",
    model="a Keras model",
    tool="xconv-tensorflow-to-dlc",
    recognizes=_recognizes,
    convert=_convert,
)
