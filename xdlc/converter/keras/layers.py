"""Layers of a serialized Keras model with calls, and names of the values between."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdlc.converter.keras.calls import Call, Ref, call_of, in_form, invalid
from xdlc.errors import ModelError, UnsupportedOp

MODELS = ("Functional", "Model", "Sequential")
INPUT = "InputLayer"
EXPORT = "export the model with model.export('folder'), and convert this folder: `xdlc convert folder`"
PACKAGES = ("keras", "tf_keras", "tensorflow")
"""Packages whose classes and functions are those of Keras."""
_DEPTH = 32
"""Most models and wrappers inside one another."""
_LAYERS = 1 << 14
"""Most layers of a model."""
_WITHOUT_OPTION = ("SpatialDropout", "Discretization")
"""Layers whose configuration has no option trainable."""
_ALIASES = {
    **{f"Convolution{rank}D": f"Conv{rank}D" for rank in (1, 2, 3)},
    **{f"Convolution{rank}DTranspose": f"Conv{rank}DTranspose" for rank in (1, 2, 3)},
    **{f"{kind}Pool{rank}D": f"{kind}Pooling{rank}D" for kind in ("Max", "GlobalMax") for rank in (1, 2, 3)},
    **{
        f"{kind}AvgPool{rank}D": f"{kind}AveragePooling{rank}D"
        for kind in ("", "Global")
        for rank in (1, 2, 3)
    },
    "BatchNormalizationV1": "BatchNormalization",
    "BatchNormalizationV2": "BatchNormalization",
    "SyncBatchNormalization": "BatchNormalization",
    "SeparableConvolution1D": "SeparableConv1D",
    "SeparableConvolution2D": "SeparableConv2D",
    "GroupedQueryAttention": "GroupQueryAttention",
}
"""Other names of layer classes."""


@dataclass(slots=True, eq=False)
class Layer:
    """A layer, a model or an operation.

    Attributes:
        domain: ``""`` for layers, ``ops`` for operations of Keras 3, ``tf`` for functions of TensorFlow.
        path: Its group in ``model.weights.h5``.
        place: Its place in the file, for errors.
        trainable: Whether it and all around it are trainable.
        inner: Layers of a model or wrapper.
        is_old: Whether its calls are stated in the form of Keras 2.
    """

    name: str
    kind: str
    domain: str
    config: dict[str, Any]
    path: str
    place: str
    trainable: bool = True
    calls: list[Call] = field(default_factory=list)
    inner: list[Layer] = field(default_factory=list)
    is_old: bool = False

    @property
    def is_model(self) -> bool:
        """Whether the layer is a model."""
        return self.kind in MODELS and not self.domain

    def walk(self) -> Iterator[Layer]:
        """Iterate over it and the layers inside it."""
        yield self
        for layer in self.inner:
            yield from layer.walk()


class Parser:
    """Makes layers of JSON."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._count = 0

    def model(self, serialized: Any) -> Layer:
        """Return the layer tree of a serialized model.

        Raises:
            ModelError: If it is not a model.
            UnsupportedOp: If its class is unknown.
        """
        model = self._layer(serialized, "", self._where, True, 0)
        if not model.is_model:
            raise UnsupportedOp(
                f"the model has class {model.kind}, whose calls exist only in Python code",
                where=self._where,
                fix=EXPORT,
            )
        return model

    def _layer(self, serialized: Any, path: str, around: str, trainable: bool, depth: int) -> Layer:
        self._count += 1
        if depth > _DEPTH or self._count > _LAYERS:
            raise ModelError(
                f"the model nests layers more than {_DEPTH} levels deep"
                if depth > _DEPTH
                else f"the model has more than {_LAYERS} layers",
                where=self._where,
                fix="split the model into smaller models",
            )
        serialized = in_form(serialized, dict, "a layer", around)
        kind, config = serialized.get("class_name"), serialized.get("config")
        if isinstance(config, list) and kind == "Sequential":  # Keras before 2.2.3
            config = {"layers": config}
        config = dict(in_form(config, dict, "the configuration of a layer", around))
        if not isinstance(kind, str):
            raise invalid(f"a layer has the invalid class {kind!r:.60}", around)
        name = serialized.get("name", config.get("name", kind.lower()))
        if not isinstance(name, str) or not name:
            raise invalid(f"a layer has the invalid name {name!r:.60}", around)
        registered, module = serialized.get("registered_name"), str(serialized.get("module") or "")
        kind, domain = _domain(kind, module, config)
        place = f"{around}: layer {name!r} ({kind})"
        if (module or ">" in str(registered)) and module.split(".")[0] not in PACKAGES:
            kind = str(registered or f"{module}.{kind}")  # a class of the model's own code, whatever its name
        active = trainable and config.get("trainable", True) is not False
        layer = Layer(name, kind, domain, config, path, place, active)
        for entry in in_form(serialized.get("inbound_nodes") or [], list, "inbound_nodes", place):
            layer.calls.append(call_of(entry, place))
            layer.is_old = isinstance(entry, list)
        layer.inner = self._inner(layer, depth)
        return layer

    def _inner(self, layer: Layer, depth: int) -> list[Layer]:
        """Return the layers of a model or wrapper."""

        def nested(serialized: Any, path: str) -> Layer:
            full = f"{layer.path}/{path}" if layer.path else path
            return self._layer(serialized, full, layer.place, layer.trainable, depth + 1)

        config = layer.config
        if layer.is_model:
            return list(
                self._contents(layer, in_form(config.get("layers"), list, "layers", layer.place), depth)
            )
        if layer.kind in ("TimeDistributed", "SpectralNormalization") and "layer" in config:
            return [nested(config["layer"], "layer")]
        if layer.kind == "Bidirectional" and "layer" in config:
            forward = nested(config["layer"], "forward_layer")
            serialized = config.get("backward_layer") or _reversed(config["layer"])
            return [forward, nested(serialized, "backward_layer")]
        if layer.kind == "RNN" and "cell" in config:
            return [nested(config["cell"], "cell")]
        if layer.kind == "StackedRNNCells":
            cells = in_form(config.get("cells"), list, "cells", layer.place)
            return [nested(cell, f"cells/{group}") for cell, group in zip(cells, _groups(cells), strict=True)]
        return []

    def _contents(self, model: Layer, given: Sequence[Any], depth: int) -> Iterator[Layer]:
        """Yield the layers of a model; the file numbers those of a class, not operations."""
        used: dict[str, int] = {}
        for entry in given:
            layer = self._layer(entry, "", model.place, model.trainable, depth + 1)
            if not layer.domain:
                group = _snake(str(entry["class_name"]))
                count = used[group] = used.get(group, -1) + 1
                prefix = f"{model.path}/layers" if model.path else "layers"
                path = f"{prefix}/{group}_{count}" if count else f"{prefix}/{group}"
                for inner in layer.walk():
                    inner.path = f"{path}/{inner.path}" if inner.path else path
            yield layer


def _groups(given: Sequence[Any]) -> Iterator[str]:
    used: dict[str, int] = {}
    for entry in given:
        group = _snake(str(entry.get("class_name") if isinstance(entry, dict) else ""))
        count = used[group] = used.get(group, -1) + 1
        yield f"{group}_{count}" if count else group


def _snake(name: str) -> str:
    """Return a class name as Keras writes it in groups: ``Conv2D`` is ``conv2d``."""
    name = "GroupedQueryAttention" if name == "GroupQueryAttention" else name  # its name in Python
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", name))
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def _domain(kind: str, module: str, config: Mapping[str, Any]) -> tuple[str, str]:
    """Return class and domain of a layer; without a module, operations lack options."""
    if kind in ("TFOpLambda", "SlicingOpLambda"):
        return kind, "tf"
    is_layer = kind in (INPUT, *MODELS) or "trainable" in config or kind.startswith(_WITHOUT_OPTION)
    if module.startswith(("keras.src.ops", "keras.ops")) or not (module or is_layer):
        return kind, "ops"
    return _ALIASES.get(kind, kind), ""


def _reversed(serialized: Any) -> Any:
    """Return a serialized recurrent layer reversed, as Bidirectional does."""
    if not isinstance(serialized, dict) or not isinstance(serialized.get("config"), dict):
        return serialized
    config = dict(serialized["config"])
    config |= {"go_backwards": not config.get("go_backwards"), "name": f"backward_{config.get('name', '')}"}
    return {**serialized, "config": config}


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
        """Return the names of the outputs of a call that are used, at least one."""
        base = f"{self._prefix}{layer.name}" + (f"_call{number}" if number else "")
        count = self._counts.get((layer.name, number), 1)
        if count > 256:
            raise invalid(
                f"a layer reads output {count - 1} of another, but a layer has at most 256", layer.place
            )
        return [base, *(f"{base}:{output}" for output in range(1, count))]

    def of(self, ref: Ref, place: str) -> str:
        """Return the name of a tensor.

        Raises:
            ModelError: If no such layer is called so often, or has so many outputs.
        """
        layer = self._layers.get(ref.layer)
        if layer is None:
            raise invalid(f"the layer reads layer {ref.layer!r}, which is missing", place)
        number = ref.call - self._first[ref.layer]
        if not 0 <= number < (len(layer.calls) if layer.kind != INPUT else 1):
            raise invalid(f"the layer reads call {ref.call} of layer {ref.layer!r}, which is missing", place)
        outputs = self.called(layer, number)
        if ref.output >= len(outputs):  # an input, whose outputs no call has counted
            raise invalid(
                f"the layer reads output {ref.output} of layer {ref.layer!r}, which is missing", place
            )
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
