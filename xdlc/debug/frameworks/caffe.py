"""Caffe nets on OpenCV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdlc.debug.frameworks import Framework, add_framework


class _Caffe:
    """A net with its weights."""

    def __init__(self, path: str, weights: str) -> None:
        import cv2

        self._net = cv2.dnn.readNetFromCaffe(path, weights)
        self._net.enableFusion(False)
        layers = self._net.getLayerNames()
        starts = {self._net.getLayer(0).name}
        self.names = [name for name in layers if name not in starts]
        with open(path, encoding="utf-8", errors="replace") as file:
            self.inputs = _inputs(file.read())

    def values(self, feeds: Mapping[str, Any], names: Sequence[str], sample: int) -> list[Any]:
        del sample
        for name in self.inputs:
            self._net.setInput(feeds[name].astype("float32"), name)
        return [array.copy() for array in self._net.forward(list(names))]


def _inputs(text: str) -> list[str]:
    """Return the names of a net's inputs, stated by ``input:`` or as layers."""
    import re

    stated = re.findall(r'^\s*input\s*:\s*"([^"]+)"', text, re.MULTILINE)
    layers = re.findall(r'layer\s*\{[^{}]*type\s*:\s*"Input"[^{}]*', text)
    tops = [top for layer in layers for top in re.findall(r'top\s*:\s*"([^"]+)"', layer)]
    return stated or tops


add_framework(
    "caffe",
    Framework("OpenCV", _Caffe, ("cv2",), "pip install 'opencv-python-headless<5'", channel_first=True),
)
