"""Names of a functional model's values, and references of its configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdlc.converter.keras.calls import Ref, invalid
from xdlc.converter.keras.layers import INPUT, Layer


class Names:
    """Names of the values of a functional model.

    Args:
        layers: Its layers by name.
        prefix: Text before each name.

    Attributes:
        outputs: Its outputs, their calls counted as elsewhere.
    """

    def __init__(
        self, model: Layer, layers: Mapping[str, Layer], prefix: str, outputs: Sequence[Ref]
    ) -> None:
        self._layers = layers
        self._prefix = prefix
        self._counts: dict[tuple[str, int], int] = {}
        highest: dict[str, int] = {}
        read = [
            ref for layer in model.inner for call in layer.calls for ref in refs_of([*call.args, call.kwargs])
        ]
        for ref in (*read, *outputs):
            highest[ref.layer] = max(ref.call, highest.get(ref.layer, 0))
        # calls of a model inside a model count from 1 in Keras 2, and in the list of outputs also in Keras 3
        self._first = {
            name: max(0, highest.get(name, 0) + 1 - len(layer.calls))
            if layer.is_model and layer.is_old
            else 0
            for name, layer in layers.items()
        }
        self.outputs = [self._as_output(ref) for ref in outputs]
        for ref in (*read, *self.outputs):
            key = ref.layer, ref.call - self._first.get(ref.layer, 0)
            self._counts[key] = max(self._counts.get(key, 1), ref.output + 1)

    def _as_output(self, ref: Ref) -> Ref:
        layer = self._layers.get(ref.layer)
        is_shifted = layer is not None and layer.is_model and layer.kind != "Sequential" and not layer.is_old
        return ref._replace(call=ref.call - 1) if is_shifted else ref

    def called(self, layer: Layer, number: int) -> list[str]:
        """Return the names of the outputs of a call that something reads, at least one."""
        base = f"{self._prefix}{layer.name}" + (f"_call{number}" if number else "")
        count = self._counts.get((layer.name, number), 1)
        if count > 256:
            raise invalid(f"output {count - 1} of it is read", layer.place)
        return [base, *(f"{base}:{output}" for output in range(1, count))]

    def of(self, ref: Ref, place: str) -> str:
        """Return the name of a tensor.

        Raises:
            ModelError: If no such layer is called so often, or has so many outputs.
        """
        layer = self._layers.get(ref.layer)
        if layer is None:
            raise invalid(f"reads layer {ref.layer!r}, which is missing", place)
        number = ref.call - self._first[ref.layer]
        if not 0 <= number < (len(layer.calls) if layer.kind != INPUT else 1):
            raise invalid(f"reads call {ref.call} of layer {ref.layer!r}, which is missing", place)
        outputs = self.called(layer, number)
        if ref.output >= len(outputs):  # an input, whose outputs no call has counted
            raise invalid(f"reads output {ref.output} of layer {ref.layer!r}, which is missing", place)
        return outputs[ref.output]


def refs_of(arguments: Any) -> list[Ref]:
    """Return the tensors among arguments."""
    if isinstance(arguments, Ref):
        return [arguments]
    if isinstance(arguments, slice):
        return refs_of([arguments.start, arguments.stop, arguments.step])
    if isinstance(arguments, dict):
        return [ref for argument in arguments.values() for ref in refs_of(argument)]
    return [ref for argument in arguments for ref in refs_of(argument)] if isinstance(arguments, list) else []
