"""Reader of Keras files: a node for each call of a layer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from xdlc import ir
from xdlc.converter.keras.calls import Call, Ref, invalid, is_leaf, tensors
from xdlc.converter.keras.layers import EXPORT, INPUT, Layer, Names, Parser
from xdlc.converter.keras.masks import with_masks
from xdlc.converter.keras.registry import DTYPES, Operand, arguments_of, described, handler, options_of
from xdlc.converter.keras.weights import KerasFile, bind, check_policy
from xdlc.converter.pipeline import Options, SourceModel
from xdlc.converter.session.boundary import UNNAMED
from xdlc.converter.session.context import Source
from xdlc.converter.session.node import GraphInput, Node, SourceGraph
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir.names import FreeNames

_NODES = 1 << 16
"""Most nodes that calls of models inside models may expand to."""


def read(path: str | os.PathLike[str], options: Options) -> SourceModel:
    """Return the graph of a ``.keras`` or ``.h5`` file.

    Raises:
        ModelError: If the file is damaged or contradicts itself.
        UnsupportedOp: If it is of a kind that cannot be read.
        UsageError: If h5py is not installed.
    """
    file = KerasFile(path)
    model = Parser(str(path)).model(file.model)
    policies: dict[str, str] = {}
    for layer in model.walk():
        policy = None if layer.domain else check_policy(layer)
        if policy is not None:
            policies.setdefault(policy, layer.name)
    if file.version.startswith("2.") or (file.is_legacy and not file.version):
        for layer in model.walk():
            _restate(layer.config)
    building = _Building(bind(model, file.weights, is_legacy=file.is_legacy))
    graph = building.main(model)
    notices = [
        f"layer {name!r} and other layers compute in {policy} in Keras, but in float32 in the DLC"
        for policy, name in policies.items()
    ]
    return SourceModel(
        Source("keras", str(path), unit="layer", channels="last"),
        graph,
        handler,
        options,
        nbytes=lambda: file.weights.size,
        notices=[*notices, *building.notices],
        batch_of_one=True,
    )


def _restate(config: dict[str, Any]) -> None:
    """Name the activations of Keras 2 that Keras 3 defines otherwise."""
    for name in ("activation", "recurrent_activation"):
        if config.get(name) == "hard_sigmoid":
            config[name] = "hard_sigmoid_2"


class _Building:
    """A source graph under construction.

    Attributes:
        notices: What differs from the model.
    """

    def __init__(self, weights: Mapping[Layer, Mapping[str, ir.TensorData]]) -> None:
        self.notices: list[str] = []
        self._weights = weights
        self._nodes: list[Node] = []
        self._names: set[str] = set()
        self._constants: dict[str, ir.TensorData] = {}
        self._free_name = FreeNames(self._constants, self._names)
        self._bound: dict[Layer, dict[str, str]] = {}

    # ------------------------------------------------------------------ models

    def main(self, model: Layer) -> SourceGraph:
        """Return the graph of the whole model."""
        inputs = [self._input(layer, shape) for layer, shape in _inputs(model)]
        names = [entry.name for entry in inputs]
        outputs = self._model(model, names, "")
        for place, name in enumerate(outputs):
            if name in names:
                outputs[place] = f"{name}_output"
                if outputs[place] not in self._names:
                    self._add(model, "Identity", [name], [outputs[place]], {})
        if len(set(outputs)) < len(outputs):
            self.notices.append("xdlc merges repeated outputs into one")
        outputs = list(dict.fromkeys(outputs))
        nodes = with_masks(self._nodes, outputs, model.place)
        return SourceGraph(inputs, outputs, nodes, self._constants)

    def _input(self, layer: Layer, shape: Any) -> GraphInput:
        config = layer.config
        dtype = config.get("dtype", "float32") if layer.kind == INPUT else "float32"
        dtype = dtype.get("config", {}).get("name") if isinstance(dtype, dict) else dtype
        if config.get("sparse") or config.get("ragged") or not isinstance(dtype, str) or dtype not in DTYPES:
            what = "sparse or ragged" if str(dtype) in DTYPES else f"of type {dtype!r:.40}"
            raise UnsupportedOp(
                f"the input is {what}, which a DLC cannot hold",
                where=layer.place,
                fix="use dense numeric inputs",
            )
        if dtype in ("float16", "bfloat16", "float64"):
            self.notices.append(f"input {layer.name!r} is {dtype} in the model, but float32 in the DLC")
        name = layer.name if layer.kind == INPUT else f"{layer.name}_input"
        self._names.add(name)
        dims = None
        if isinstance(shape, list) and all(
            size is None or (type(size) is int and size >= 0) for size in shape
        ):
            dims = [UNNAMED if size is None else size for size in shape]
        elif shape is not None:
            raise invalid(f"the shape is not valid: {shape!r:.60}", layer.place)
        return GraphInput(name, DTYPES[dtype], dims)

    def _model(self, model: Layer, sources: Sequence[str], prefix: str) -> list[str]:
        """Add the nodes of a model; return the names of its outputs.

        Args:
            prefix: Text before the names of its values.
        """
        if model.kind == "Sequential":
            return self._sequential(model, sources, prefix)
        entries = _layer_refs(model, "input_layers")
        if len(entries) != len(sources):
            raise invalid(
                f"the model has {len(entries)} inputs, but is called with {len(sources)}", model.place
            )
        by_name = {layer.name: layer for layer in model.inner}
        if len(by_name) != len(model.inner):
            raise invalid("two layers have the same name", model.place)
        outputs = _layer_refs(model, "output_layers")
        names = Names(model, by_name, prefix, outputs)
        for entry, source in zip(entries, sources, strict=True):
            alias = names.of(entry, model.place)
            if alias != source:
                self._add(by_name[entry.layer], "Identity", [source], [alias], {})
        for layer in model.inner:
            for number, call in enumerate(layer.calls):
                self._call(layer, call, names.called(layer, number), names)
        return [names.of(entry, model.place) for entry in names.outputs]

    def _sequential(self, model: Layer, given: Sequence[str], prefix: str) -> list[str]:
        if len(given) != 1:
            raise invalid(f"a Sequential model has 1 input, but is called with {len(given)}", model.place)
        value, seen = [given[0]], set()
        for layer in model.inner:
            if layer.kind == INPUT:
                continue
            if layer.name in seen:
                raise invalid(f"two layers are named {layer.name!r}", model.place)
            seen.add(layer.name)
            value = self._layer(layer, Call([], {}), [f"{prefix}{layer.name}"], value)
        return value

    # ------------------------------------------------------------------ calls

    def _call(self, layer: Layer, call: Call, outputs: list[str], names: Names) -> None:
        """Add the nodes of a call in a functional model."""
        operands: list[str] = []

        def placed(argument: Any, depth: int = 0) -> Any:
            if isinstance(argument, Ref):
                operands.append(names.of(argument, layer.place))
                return Operand(len(operands) - 1)
            if isinstance(argument, list):
                return [placed(item, depth + 1) for item in argument]
            if isinstance(argument, dict):
                return {key: placed(argument[key], depth + 1) for key in sorted(argument)}
            if isinstance(argument, slice):
                return slice(placed(argument.start), placed(argument.stop), placed(argument.step))
            return argument

        args = [placed(item) for item in call.args]
        kwargs = {name: placed(item) for name, item in call.kwargs.items()}
        results = self._layer(layer, Call(args, kwargs), outputs, operands)
        if results != outputs:  # a model, whose values have their own names
            for inner, name in zip(results, outputs, strict=False):
                self._add(layer, "Identity", [inner], [name], {})

    def _layer(self, layer: Layer, call: Call, outputs: list[str], operands: list[str]) -> list[str]:
        """Add the nodes of a call; return the names of its outputs."""
        if layer.is_model:
            if layer.is_old and call.kwargs.get("training") is True:
                raise UnsupportedOp("the layer is called with training=True", where=layer.place, fix=EXPORT)
            results = self._model(layer, operands, f"{outputs[0]}/")
            if len(results) < len(outputs):
                raise invalid(f"another layer reads output {len(results)}, which is missing", layer.place)
            return results
        if layer.kind == "TimeDistributed" and len(layer.inner) == 1:
            folded, inner = f"{outputs[0]}/folded", layer.inner[0]
            self._add(layer, "TimeDistributed", operands, [folded], {"part": "folded"})
            results = self._layer(inner, Call([], {}), [f"{outputs[0]}/{inner.name}"], [folded])
            self._add(layer, "TimeDistributed", [results[0], operands[0]], outputs, {"part": "unfolded"})
            return outputs
        if layer.kind == "SpectralNormalization" and len(layer.inner) == 1:
            return self._layer(layer.inner[0], call, outputs, operands)
        attributes = options_of(layer)
        if layer.domain:
            attributes |= {"args": call.args, "kwargs": call.kwargs}
        else:
            attributes |= arguments_of(layer, call)
        if layer.inner:
            attributes["inner"] = [
                described(inner, inner.path[len(layer.path) + 1 :]) for inner in layer.inner
            ]
        roles: dict[str, str] = {}
        for inner in layer.walk():
            group = inner.path[len(layer.path) + 1 :]
            for role, name in self._constants_of(inner).items():
                roles[f"{group}/{role}" if group else role] = name
        if roles:
            attributes["weights"] = {role: place for place, role in enumerate(roles, len(operands))}
            operands = [*operands, *roles.values()]
        self._add(layer, layer.kind, operands, outputs, attributes, layer.domain)
        return outputs

    def _constants_of(self, layer: Layer) -> Mapping[str, str]:
        """Return the names of the constants of a layer's weights, by role."""
        names = self._bound.get(layer)
        if names is None:
            names = self._bound[layer] = {}
            for role, data in self._weights.get(layer, {}).items():
                short = role.rpartition("/")[2] if role.startswith("cell/") else role
                name = self._free_name(f"{layer.name}/{short}")
                self._constants[name] = data
                names[role] = name
        return names

    def _add(
        self,
        layer: Layer,
        type: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attributes: dict[str, Any],
        domain: str = "",
    ) -> None:
        if len(self._nodes) >= _NODES:
            raise ModelError(
                f"the calls of inner models expand to more than {_NODES} layers",
                where=layer.place,
                fix="split the model into smaller models",
            )
        for name in outputs:
            if name in self._names:
                raise ModelError(
                    f"two layers write a value named {name!r}",
                    where=layer.place,
                    fix="rename one of the layers",
                )
            self._names.add(name)
        self._nodes.append(Node(type, list(inputs), list(outputs), attributes, outputs[0], domain))


def _layer_refs(model: Layer, key: str) -> list[Ref]:
    given = model.config.get(key)
    return tensors([given] if is_leaf(given) else given, model.place)


def _inputs(model: Layer) -> list[tuple[Layer, Any]]:
    """Return the input layers of the main model with their shapes.

    Raises:
        ModelError: If there are none.
    """
    if model.kind == "Sequential":
        if not model.inner:
            raise invalid("the model has no layers", model.place)
        first = model.inner[0]
        shape = _shape(first)
        return [(first, shape if shape is not None else model.config.get("build_input_shape"))]
    by_name = {layer.name: layer for layer in model.inner}
    layers = []
    for ref in _layer_refs(model, "input_layers"):
        layer = by_name.get(ref.layer)
        if layer is None or layer.kind != INPUT:
            raise invalid(f"input layer {ref.layer!r} is missing", model.place)
        layers.append((layer, _shape(layer)))
    return layers


def _shape(layer: Layer) -> Any:
    """Return the shape that the input of a first layer has, batch included."""
    while layer.is_model and layer.inner and layer.kind == "Sequential":
        layer = layer.inner[0]
    config = layer.config
    return config.get("batch_shape", config.get("batch_input_shape"))
