"""TFLite models on LiteRT, with all tensors preserved."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from xdlc.compare.engines import same
from xdlc.debug.frameworks import Framework, add_framework

_MODULES = ("ai_edge_litert.interpreter", "tensorflow.lite", "tflite_runtime.interpreter")


class _Tflite:
    """A model in an interpreter that keeps inner tensors."""

    def __init__(self, path: str, _weights: str) -> None:
        module: Any = None
        for name in _MODULES:
            try:
                module = importlib.import_module(name)
                break
            except ImportError:
                continue
        kinds = getattr(module, "experimental", module).OpResolverType
        self._interpreter = module.Interpreter(
            path,
            experimental_preserve_all_tensors=True,
            experimental_op_resolver_type=kinds.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
        self._interpreter.allocate_tensors()
        self._details = {entry["name"]: entry for entry in self._interpreter.get_tensor_details()}
        self._entries = self._interpreter.get_input_details()
        self.inputs = [entry["name"] for entry in self._entries]
        self.names = [name for name in self._details if name and name not in self.inputs]
        self._fed: Mapping[str, Any] | None = None

    def values(self, feeds: Mapping[str, Any], names: Sequence[str], sample: int) -> list[Any]:
        del sample
        if self._fed is None or not same(self._fed, feeds):
            self._fed = None
            self._invoke(feeds)
            self._fed = dict(feeds)
        return [self._real(self._details[name]) for name in names]

    def _invoke(self, feeds: Mapping[str, Any]) -> None:
        import numpy

        for entry in self._entries:
            array = feeds[entry["name"]]
            scale, zero = entry["quantization"]
            if scale and array.dtype.kind == "f":
                limits = numpy.iinfo(entry["dtype"])
                array = numpy.clip(numpy.rint(array / scale) + zero, limits.min, limits.max)
            self._interpreter.set_tensor(entry["index"], array.astype(entry["dtype"]).reshape(entry["shape"]))
        self._interpreter.invoke()

    def _real(self, entry: Mapping[str, Any]) -> Any:
        """Return a tensor as real numbers."""
        import numpy

        array = self._interpreter.get_tensor(entry["index"])
        form = entry["quantization_parameters"]
        scales, zeros = form["scales"], form["zero_points"]
        if not len(scales):
            return array
        shape = [1] * array.ndim
        if len(scales) > 1:
            shape[form["quantized_dimension"]] = len(scales)
        whole = array.astype(numpy.float32) - zeros.reshape(shape).astype(numpy.float32)
        return whole * scales.reshape(shape)


add_framework(
    "tflite",
    Framework(
        "LiteRT", _Tflite, ("ai_edge_litert", "tensorflow", "tflite_runtime"), "pip install ai-edge-litert"
    ),
)
