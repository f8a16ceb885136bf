"""ONNX models on onnxruntime, with inner values as outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xdlc.compare.engines import Progress
from xdlc.debug.frameworks import Framework, add_framework


class _Onnx:
    """A model, opened again for each choice of values."""

    def __init__(self, path: str, _weights: str) -> None:
        import onnx

        self._model = onnx.load(path, load_external_data=False)
        self._folder = Path(path).resolve().parent
        graph = self._model.graph
        weights = {entry.name for entry in graph.initializer}
        self.inputs = [entry.name for entry in graph.input if entry.name not in weights]
        self.names = [name for node in graph.node for name in node.output if name]
        self._empty = onnx.ModelProto()
        self._empty.CopyFrom(self._model)
        for field in ("node", "initializer", "sparse_initializer", "input", "output", "value_info"):
            self._empty.graph.ClearField(field)
        self._progress = Progress([(_reads(node), node.output) for node in graph.node])
        self._open: tuple[Any, Any] = (None, None)

    def values(self, feeds: Mapping[str, Any], names: Sequence[str], sample: int) -> list[Any]:
        results = self._progress.values(feeds, names, sample, self._run)
        return [results[name] for name in names]

    def _run(
        self, numbers: tuple[int, ...], feeds: Mapping[str, Any], names: Sequence[str]
    ) -> dict[str, Any]:
        chosen, session = self._open
        if session is None or chosen != (numbers, tuple(names)):
            self._open = (None, None)
            session = self._session(numbers, feeds, names)
            self._open = ((numbers, tuple(names)), session)
        types = {entry.name: _TYPES.get(entry.type, "float32") for entry in session.get_inputs()}
        arrays = session.run(list(names), {name: feeds[name].astype(types[name]) for name in types})
        return dict(zip(names, arrays, strict=True))

    def _session(self, numbers: Sequence[int], feeds: Mapping[str, Any], names: Sequence[str]) -> Any:
        """Return a session of some nodes, which those of values before them feed."""
        import onnx
        import onnxruntime

        model, graph = onnx.ModelProto(), self._model.graph
        model.CopyFrom(self._empty)
        model.graph.node.extend(graph.node[number] for number in numbers)
        read = {name for number in numbers for name in _reads(graph.node[number])}
        model.graph.initializer.extend(entry for entry in graph.initializer if entry.name in read)
        stated = {entry.name: entry for entry in graph.input}
        for name in feeds:
            if name in stated:
                model.graph.input.append(stated[name])
            else:
                type = onnx.helper.np_dtype_to_tensor_dtype(feeds[name].dtype)
                model.graph.input.append(onnx.helper.make_tensor_value_info(name, type, None))
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        place = str(self._folder)
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", place)
        providers = ["CPUExecutionProvider"]
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)


def _reads(node: Any) -> list[str]:
    """Return the names of the values that a node reads, in its graphs too."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for graph in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else ())):
            names += [name for inner in graph.node for name in _reads(inner)]
            names += [output.name for output in graph.output]
    return names


_TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bool)": "bool",
} | {f"tensor({sign}int{bits})": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}

add_framework(
    "onnx", Framework("onnxruntime", _Onnx, ("onnxruntime",), "pip install onnxruntime", channel_first=True)
)
