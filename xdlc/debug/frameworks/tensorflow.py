"""Keras models, SavedModels and frozen graphs on TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from xdlc.compare.engines import Progress
from xdlc.debug.frameworks import Framework, Network, add_framework

_LOOPS = frozenset({"Enter", "Exit", "NextIteration"})
"""Operations of loops, which run as a whole."""


class _Keras:
    """A Keras model, whose layers' results are outputs."""

    def __init__(self, path: str) -> None:
        import keras

        self._keras = keras
        self._model = keras.saving.load_model(path, compile=False, safe_mode=True)
        self.inputs = [tensor.name for tensor in self._model.inputs]
        self._results = {
            layer.name: layer.output
            for layer in self._model.layers
            if hasattr(getattr(layer, "output", None), "shape")
        }
        self.names = [name for name in self._results if name not in self.inputs]

    def values(self, feeds: Mapping[str, Any], names: Sequence[str], sample: int) -> list[Any]:
        import numpy

        del sample

        inner = self._keras.Model(self._model.inputs, [self._results[name] for name in names])
        results = inner([feeds[name] for name in self.inputs], training=False)
        return [numpy.asarray(value) for value in results]


class _Graph:
    """A graph of TensorFlow with constants in place of variables."""

    def __init__(self, path: str) -> None:
        import tensorflow as tf

        self._tf, self._prefix = tf, ""
        if os.path.isdir(path):
            from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

            saved = tf.saved_model.load(path)  # its variables live as long as it does
            signatures = saved.signatures
            key = "serving_default" if "serving_default" in signatures else next(iter(signatures))
            function = signatures[key]
            self._prefix = _caller(path, key)
            frozen = convert_variables_to_constants_v2(function)
            definition = frozen.graph.as_graph_def()
            names = [tensor.name for tensor in frozen.inputs]
            stated = list(function.structured_input_signature[1])
            holders = {name.partition(":")[0]: name for name in names}
            self._fed = {
                key: next((held for short, held in holders.items() if short.endswith(key)), names[0])
                for key in stated
            }
        else:
            definition = tf.compat.v1.GraphDef()
            with open(path, "rb") as file:
                definition.ParseFromString(file.read())
            self._fed = {node.name: f"{node.name}:0" for node in definition.node if node.op == "Placeholder"}
        self._graph = tf.Graph()
        with self._graph.as_default():
            tf.import_graph_def(definition, name="")
        self.inputs = list(self._fed)
        skipped = {"Const", "Placeholder", "NoOp", "ReadVariableOp"}
        ops = [op for op in self._graph.get_operations() if op.outputs and op.type not in skipped]
        self.names = [self._prefix + op.name for op in ops]
        operations = self._graph.get_operations()
        entries = [
            ([entry.name for entry in op.inputs], [out.name for out in op.outputs]) for op in operations
        ]
        is_cyclic = any(op.type in _LOOPS for op in operations)
        self._progress = None if is_cyclic else Progress(entries)

    def values(self, feeds: Mapping[str, Any], names: Sequence[str], sample: int) -> list[Any]:
        fed = {self._fed[name]: feeds[name] for name in self.inputs}
        keys = [f"{name[len(self._prefix) :]}:0" for name in names]
        if self._progress is None:
            results = self._run((), fed, keys)
        else:
            results = self._progress.values(fed, keys, sample, self._run)
        return [results[key] for key in keys]

    def _run(self, _: tuple[int, ...], feeds: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
        config = self._tf.compat.v1.ConfigProto()
        config.graph_options.rewrite_options.disable_meta_optimizer = True  # it drops values that are fed
        with self._tf.compat.v1.Session(graph=self._graph, config=config) as session:
            results: list[Any] = session.run(list(names), dict(feeds))
        return dict(zip(names, results, strict=True))


def _caller(path: str, signature: str) -> str:
    """Return the prefix of a signature's ops: the name of the op that calls them."""
    from tensorflow.core.protobuf import saved_model_pb2

    saved = saved_model_pb2.SavedModel()
    with open(os.path.join(path, "saved_model.pb"), "rb") as file:
        saved.ParseFromString(file.read())
    for content in saved.meta_graphs:
        results = content.signature_def[signature].outputs.values()
        names = {result.name.partition(":")[0] for result in results}
        calls = (node.name for node in content.graph_def.node if node.op.endswith("PartitionedCall"))
        name = next((name for name in calls if name in names), None)
        if name is not None:
            return f"{name}/"
    return ""


def _open(path: str, _weights: str) -> Network:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    return _Keras(path) if path.endswith((".keras", ".h5", ".hdf5")) else _Graph(path)


add_framework("tensorflow", Framework("TensorFlow", _open, ("tensorflow",), "pip install tensorflow"))
