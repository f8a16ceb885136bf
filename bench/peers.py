"""The tools that the converter is compared with, each run in a process of its own.

python bench/peers.py files MODEL
python bench/peers.py ort|dump MODEL FOLDER
python bench/peers.py check|session MODEL
"""

from __future__ import annotations

import sys
from pathlib import Path


def external_files(model: Path) -> list[Path]:
    """Return the files that hold a model's external data."""
    import onnx

    proto = onnx.load(model, load_external_data=False)
    named = {
        entry.value
        for tensor in proto.graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return [model.parent / name for name in sorted(named)]


def optimize(model: Path, folder: Path) -> None:
    """Let onnxruntime optimize a model and save the result."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    options.add_session_config_entry(
        "session.optimized_model_external_initializers_file_name", "optimized.bin"
    )
    options.add_session_config_entry(
        "session.optimized_model_external_initializers_min_size_in_bytes", "1024"
    )
    ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def dump(model: Path, folder: Path) -> None:
    """Let onnxruntime-qnn write the DLC of a model."""
    import onnxruntime as ort
    import onnxruntime_qnn as qnn

    ir = str(Path(qnn.LIB_DIR_FULL_PATH) / "libQnnIr.so")
    ort.register_execution_provider_library(qnn.EP_NAME, qnn.get_library_path())
    devices = [device for device in ort.get_ep_devices() if device.ep_name == qnn.EP_NAME]
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.add_provider_for_devices(
        devices[:1],
        {
            "backend_path": ir,
            "qnn_ir_backend_path": ir,
            "dump_qnn_ir_dlc": "1",
            "dump_qnn_ir_dlc_dir": str(folder),
        },
    )
    ort.InferenceSession(str(model), options)
    if not list(folder.glob("*.dlc")):
        sys.exit("no DLC was written")


def check(model: Path) -> None:
    """Let onnx load and check a model."""
    import onnx

    onnx.checker.check_model(onnx.load(model))


def session(model: Path) -> None:
    """Let onnxruntime load a model as it is."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


if __name__ == "__main__":
    verb, model, *rest = sys.argv[1:]
    if verb == "files":
        print("\n".join(map(str, [Path(model), *external_files(Path(model))])))
    elif rest:
        {"ort": optimize, "dump": dump}[verb](Path(model), Path(rest[0]))
    else:
        {"check": check, "session": session}[verb](Path(model))
