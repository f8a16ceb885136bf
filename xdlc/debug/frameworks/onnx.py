"""ONNX models on onnxruntime, with inner values as outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
        self._open: tuple[tuple[str, ...], Any] = ((), None)

    def values(self, feeds: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
        chosen, session = self._open
        if session is None or chosen != tuple(names):
            self._open = ((), None)
            session = self._session(names)
            self._open = (tuple(names), session)
        types = {entry.name: _TYPES.get(entry.type, "float32") for entry in session.get_inputs()}
        results: list[Any] = session.run(
            list(names), {name: feeds[name].astype(types[name]) for name in types}
        )
        return results

    def _session(self, names: Sequence[str]) -> Any:
        import onnx
        import onnxruntime

        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        del model.graph.output[:]
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        place = str(self._folder)
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", place)
        providers = ["CPUExecutionProvider"]
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)


_TYPES = {
    "tensor(float)": "float32",
    "tensor(double)": "float64",
    "tensor(float16)": "float16",
    "tensor(bool)": "bool",
} | {f"tensor({sign}int{bits})": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}

add_framework(
    "onnx", Framework("onnxruntime", _Onnx, ("onnxruntime",), "pip install onnxruntime", channel_first=True)
)
