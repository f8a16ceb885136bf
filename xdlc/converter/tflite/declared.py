"""Shapes and types of values as a TFLite file states them, for UDOs."""

from __future__ import annotations

from xdlc.converter.tflite.file import TfliteFile
from xdlc.converter.tflite.tensors import OTHERS, TensorInfo
from xdlc.converter.udo.nodes import Declarations
from xdlc.converter.udo.output_inference import Declared
from xdlc.converter.values import Dims


class DeclaredTensors(Declarations):
    """Tensors of a file by name; a name that sub-graphs share counts as not stated.

    Args:
        is_outdated: Whether inputs have other shapes than the file states.
    """

    def __init__(self, file: TfliteFile, *, is_outdated: bool) -> None:
        self._is_outdated = is_outdated
        self._held: dict[str, TensorInfo | None] = {}
        for tensors in file.tensors:
            for tensor in tensors:
                self._held[tensor.name] = None if tensor.name in self._held else tensor

    def find(self, name: str) -> Declared:
        """Return the declaration of a value.

        Raises:
            UnsupportedOp: If it is nothing that a DLC holds.
        """
        tensor = self._held.get(name)
        if tensor is None:
            return Declared(read=bool(name))
        shape: Dims = tuple(dim if dim >= 0 else None for dim in tensor.signature)
        return Declared(shape, tensor.qnn_dtype, is_outdated=self._is_outdated)

    def oddity(self, name: str) -> str:
        """Return the type that no DLC holds, like ``string``; empty for numbers."""
        tensor = self._held.get(name)
        return "" if tensor is None else OTHERS.get(tensor.type, "")
