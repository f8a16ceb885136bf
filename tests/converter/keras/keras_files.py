"""Writer of small Keras files, without Keras: JSON, HDF5 and zip."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import h5py
import numpy as np


def layer(kind: str, name: str, inbound: Any = None, module: str = "keras.layers", **config: Any) -> dict:
    """Return a serialized layer; ``inbound`` are its calls."""
    given = (
        {"name": name, "trainable": True, **config} if module.endswith("layers") else {"name": name, **config}
    )
    made = {"module": module, "class_name": kind, "config": given, "registered_name": None, "name": name}
    if inbound is not None:
        made["inbound_nodes"] = inbound
    return made


def operation(kind: str, name: str, inbound: Any, **config: Any) -> dict:
    return layer(kind, name, inbound, module="keras.src.ops.numpy", **config)


def entry(name: str, *shape: int | None, dtype: str = "float32") -> dict:
    made = layer("InputLayer", name, [], batch_shape=list(shape), dtype=dtype)
    made["config"].pop("trainable")
    return made


def ref(name: str, call: int = 0, output: int = 0) -> dict:
    return {"class_name": "__keras_tensor__", "config": {"keras_history": [name, call, output]}}


def call(*args: Any, **kwargs: Any) -> dict:
    return {"args": [ref(each) if isinstance(each, str) else each for each in args], "kwargs": kwargs}


def functional(layers: list[dict], inputs: list, outputs: list, name: str = "model") -> dict:
    def leaves(names: list) -> list:
        return [[each, 0, 0] if isinstance(each, str) else each for each in names]

    config = {
        "name": name,
        "layers": layers,
        "input_layers": leaves(inputs),
        "output_layers": leaves(outputs),
    }
    return {
        "module": "keras",
        "class_name": "Functional",
        "config": config,
        "name": name,
        "registered_name": None,
    }


def sequential(*layers: dict, name: str = "model") -> dict:
    config = {"name": name, "layers": list(layers)}
    return {
        "module": "keras",
        "class_name": "Sequential",
        "config": config,
        "name": name,
        "registered_name": None,
    }


def weights_file(weights: dict[str, list], **options: Any) -> bytes:
    """The HDF5 file of a ``.keras`` archive: arrays by the path of a layer's group."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        for path, arrays in weights.items():
            group = file.create_group(f"{path}/vars")
            for number, array in enumerate(arrays):
                group.create_dataset(str(number), data=np.asarray(array, np.float32), **options)
    return buffer.getvalue()


def archive(
    path: Path,
    model: Any,
    weights: dict[str, list] | bytes,
    method: int = zipfile.ZIP_STORED,
    version: str = "3.15.1",
    **options: Any,
) -> Path:
    """Write a ``.keras`` file."""
    content = weights if isinstance(weights, bytes) else weights_file(weights, **options)
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("metadata.json", json.dumps({"keras_version": version}))
        file.writestr("config.json", model if isinstance(model, str) else json.dumps(model))
        file.writestr("model.weights.h5", content)
    return path


def legacy(path: Path, model: Any, weights: dict[str, dict[str, Any]], version: str = "2.15.0") -> Path:
    """Write an ``.h5`` file with arrays by name and layer."""
    with h5py.File(path, "w") as file:
        file.attrs["model_config"] = json.dumps(_without_modules(model))
        file.attrs["keras_version"] = version
        group = file.create_group("model_weights")
        group.attrs["layer_names"] = [name.encode() for name in weights]
        for name, arrays in weights.items():
            own = group.create_group(name)
            own.attrs["weight_names"] = [each.encode() for each in arrays]
            for each, array in arrays.items():
                own.create_dataset(each, data=np.asarray(array, np.float32))
    return path


def _without_modules(config: Any) -> Any:
    if isinstance(config, dict):
        return {
            key: _without_modules(each)
            for key, each in config.items()
            if key not in ("module", "registered_name")
        }
    return [_without_modules(each) for each in config] if isinstance(config, list) else config
