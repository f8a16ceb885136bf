"""Hostile Keras files: refused or converted, with bounded resources."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from tests.converter.keras.keras_files import (
    archive,
    call,
    entry,
    functional,
    layer,
    legacy,
    ref,
    sequential,
    weights_file,
)
from tests.hostile.confined import End, Server, harmless

W, B = np.ones((4, 3), np.float32), np.ones(3, np.float32)
HELD = {"layers/dense": [W, B]}


def convert(server: Server, path: Path) -> End:
    words = ("-i", path, "-o", path.parent / "a.dlc", "-b", 1)
    return harmless(server.call("xconv-tensorflow-to-dlc", *words))


def dense(**config: Any) -> dict:
    return layer("Dense", "d", **{"units": 3, **config})


def plain(**changes: Any) -> dict:
    return (
        functional([entry("x", None, 4), {**dense(), "inbound_nodes": [call("x")]}], ["x"], ["d"]) | changes
    )


def with_config(**changes: Any) -> dict:
    model = plain()
    model["config"] |= changes
    return model


def inbound(*calls: Any) -> dict:
    return functional([entry("x", None, 4), {**dense(), "inbound_nodes": list(calls)}], ["x"], ["d"])


def nested(depth: int) -> dict:
    made = dense()
    for number in range(depth):
        made = sequential(made, name=f"s{number}")
    return made


def multiplied(depth: int) -> dict:
    """Models that call the one inside them twice."""
    nested: dict = {**dense(units=4), "inbound_nodes": [call("x")]}
    for number in range(depth):
        model = functional([entry("x", None, 4), nested], ["x"], [[nested["name"], 0, 0]], name=f"m{number}")
        model["inbound_nodes"] = [call("x"), call(ref(f"m{number}"))]
        nested = model
    return nested


MODELS: dict[str, Callable[[], Any]] = {
    "no JSON": lambda: "{",
    "a list": lambda: "[]",
    "a number": lambda: "3",
    "nothing in it": dict,
    "JSON that nests": lambda: "[" * 100000,
    "JSON with half of a character": lambda: '{"name": "\\ud800"}',
    "objects that nest": lambda: '{"a":' * 50000,
    "no class": lambda: plain(class_name=None),
    "a class that is a list": lambda: plain(class_name=["Dense"]),
    "a class without calls": lambda: plain(class_name="Mine"),
    "a configuration that is text": lambda: plain(config="x"),
    "layers that are a number": lambda: with_config(layers=7),
    "layers that are text": lambda: with_config(layers=["x", "y"]),
    "layers that are missing": lambda: with_config(layers=None),
    "no layers": lambda: with_config(layers=[]),
    "a layer that is null": lambda: with_config(layers=[None]),
    "a name that is a number": lambda: functional([{**entry("x", None, 4), "name": 5}], ["x"], ["x"]),
    "two layers of one name": lambda: functional([entry("x", None, 4)] * 2, ["x"], ["x"]),
    "an output that is missing": lambda: with_config(output_layers=[["y", 0, 0]]),
    "an output of a later call": lambda: with_config(output_layers=[["d", 9, 0]]),
    "output number 2^40": lambda: with_config(output_layers=[["d", 0, 1 << 40]]),
    "a negative output": lambda: with_config(output_layers=[["d", 0, -1]]),
    "outputs that are text": lambda: with_config(output_layers="d"),
    "outputs that nest": lambda: with_config(output_layers=json.loads("[" * 200 + "]" * 200)),
    "inputs that are missing": lambda: with_config(input_layers=[["y", 0, 0]]),
    "an input that is no input layer": lambda: with_config(input_layers=[["d", 0, 0]]),
    "an input of another output": lambda: with_config(input_layers=[["x", 0, 1]]),
    "a cycle": lambda: inbound(call("d")),
    "a call of a missing layer": lambda: inbound(call("y")),
    "a call that is a number": lambda: inbound(3),
    "a call of five parts": lambda: inbound([["x", 0, 0, {}, 1]]),
    "a call with text": lambda: inbound(
        call({"class_name": "__keras_tensor__", "config": {"keras_history": "x"}})
    ),
    "arguments that nest": lambda: inbound(call(json.loads("[" * 300 + "]" * 300))),
    "many arguments": lambda: inbound(call(*["x"] * 50000)),
    "models that nest": lambda: sequential(entry("x", None, 4), nested(200)),
    "models that double": lambda: multiplied(30),
    "a huge shape": lambda: functional([entry("x", None, 1 << 60)], ["x"], ["x"]),
    "a shape that is text": lambda: sequential(layer("Dense", "d", units=3, batch_input_shape="x")),
    "a shape with fractions": lambda: functional([entry("x", None, 1.5)], ["x"], ["x"]),  # type: ignore[arg-type]
    "a negative shape": lambda: functional([entry("x", None, -4)], ["x"], ["x"]),
    "an unknown type": lambda: functional([entry("x", None, 4, dtype="string")], ["x"], ["x"]),
    "an activation that is a list": lambda: sequential(entry("x", None, 4), dense(activation=["relu"])),
    "a list of units": lambda: sequential(
        entry("x", None, 4), dense(use_bias="yes", activation={"class_name": 3})
    ),
    "a vector repeated 2^50 times": lambda: sequential(
        entry("x", None, 4), layer("RepeatVector", "r", n=1 << 50)
    ),
    "padding of 2^50": lambda: sequential(
        entry("x", None, 4, 4), layer("ZeroPadding1D", "p", padding=1 << 50)
    ),
    "a size of 2^40": lambda: sequential(
        entry("x", None, 4, 4, 3), layer("UpSampling2D", "u", size=[1 << 40] * 2)
    ),
    "a resize to 2^40": lambda: sequential(
        entry("x", None, 4, 4, 3), layer("Resizing", "u", height=1 << 40, width=3)
    ),
    "one-hot of 2^40": lambda: sequential(
        entry("x", None, 4, dtype="int32"),
        layer("CategoryEncoding", "c", num_tokens=1 << 40, output_mode="one_hot"),
    ),
    "pools without size": lambda: sequential(
        entry("x", None, 4, 4, 3), layer("MaxPooling2D", "p", pool_size=[0, 0])
    ),
    "2^40 adaptive pools": lambda: sequential(
        entry("x", None, 4, 4, 3), layer("AdaptiveMaxPooling2D", "p", output_size=[1 << 40, 2])
    ),
    "axes that are text": lambda: sequential(entry("x", None, 4), layer("UnitNormalization", "n", axis="x")),
    "axis 2^60": lambda: sequential(entry("x", None, 4), layer("Softmax", "n", axis=1 << 60)),
    "a cell that is missing": lambda: sequential(entry("x", None, 4, 3), layer("RNN", "r", cell=None)),
    "a wrapper of nothing": lambda: sequential(
        entry("x", None, 4, 3), layer("TimeDistributed", "t", layer=3)
    ),
    "a dtype that is a list": lambda: sequential(entry("x", None, 4), dense(dtype=[1])),
    "a scale that is an object": lambda: sequential(
        entry("x", None, 4), layer("Rescaling", "r", scale={"config": 3})
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(server: Server, tmp_path: Path, name: str) -> None:
    end = convert(server, archive(tmp_path / "m.keras", MODELS[name](), HELD))
    assert end.status
    assert "error[" in end.errors


def hdf5(change: Callable[[h5py.File], None]) -> bytes:
    buffer = io.BytesIO(weights_file({"layers/other": [W]}))
    with h5py.File(buffer, "r+") as file:
        group = file.create_group("layers/dense/vars")
        group["1"] = B
        change(file)
    return buffer.getvalue()


def kernel(**options: Any) -> bytes:
    return hdf5(lambda file: file["layers/dense/vars"].create_dataset("0", **options))


def linked(link: Any) -> bytes:
    return hdf5(lambda file: file["layers/dense/vars"].__setitem__("0", link))


def virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout((4, 3), "f4")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (4, 3))
    file["layers/dense/vars"].create_virtual_dataset("0", layout)


WEIGHTS: dict[str, Callable[[], bytes]] = {
    "nothing": lambda: b"",
    "no HDF5": lambda: b"x" * 1000,
    "the signature alone": lambda: weights_file(HELD)[:8],
    "a file that ends early": lambda: weights_file(HELD)[:2000],
    "zeros after the start": lambda: weights_file(HELD)[:96] + bytes(8000),
    "a link to another file": lambda: linked(h5py.ExternalLink("/etc/passwd", "/x")),
    "a link inside": lambda: linked(h5py.SoftLink("/layers/other/vars/0")),
    "a link in a circle": lambda: linked(h5py.SoftLink("/layers/dense/vars/0")),
    "a virtual dataset": lambda: hdf5(virtual),
    "elements in another file": lambda: kernel(shape=(4, 3), dtype="f4", external=[("/etc/passwd", 0, 48)]),
    "2^50 chunks": lambda: kernel(shape=(1 << 50, 3), dtype="f4", chunks=(1 << 10, 3)),
    "elements that are not stored": lambda: kernel(shape=(1 << 40, 3), dtype="f4"),
    "zeros that are packed": lambda: kernel(data=np.zeros((1 << 22, 8), "f4"), compression="gzip"),
    "another shape": lambda: kernel(data=np.ones((5, 3), "f4")),
    "another rank": lambda: kernel(data=np.ones((2, 2, 3), "f4")),
    "a scalar": lambda: kernel(data=np.float32(1)),
    "no elements": lambda: kernel(data=np.ones((0, 3), "f4")),
    "text": lambda: kernel(data=[[b"a", b"b", b"c"]] * 4),
    "complex numbers": lambda: kernel(data=np.ones((4, 3), "c8")),
    "structures": lambda: kernel(data=np.zeros((4, 3), [("a", "f4"), ("b", "i2")])),
    "a group": lambda: hdf5(lambda file: file["layers/dense/vars"].create_group("0")),
    "a null dataset": lambda: hdf5(lambda file: file["layers/dense/vars"].__setitem__("0", h5py.Empty("f4"))),
    "a group that holds itself": lambda: hdf5(
        lambda file: file["layers/dense/vars"].__setitem__("0", file["layers"])
    ),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights(server: Server, tmp_path: Path, name: str) -> None:
    path = archive(tmp_path / "m.keras", sequential(entry("x", None, 4), dense()), WEIGHTS[name]())
    end = convert(server, path)
    assert end.status
    assert "error[" in end.errors


def zipped(*members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", method) as file:
        for name, content in members:
            file.writestr(name, content)
    return held.getvalue()


def patched(content: bytes, offset: int, field: bytes) -> bytes:
    """Change a field of the last entry of an archive's directory."""
    start = content.rindex(b"PK\1\2") + offset
    return content[:start] + field + content[start + len(field) :]


MODEL = json.dumps(sequential(entry("x", None, 4), dense())).encode()
GOOD = ("config.json", MODEL), ("model.weights.h5", weights_file(HELD))
ARCHIVES: dict[str, Callable[[], bytes]] = {
    "no weights": lambda: zipped(GOOD[0], ("model.weights.h5.txt", b"")),
    "no configuration": lambda: zipped(("config.json.txt", b""), GOOD[1]),
    "a directory that is cut off": lambda: zipped(*GOOD)[:-30],
    "a member after the end": lambda: patched(zipped(*GOOD), 42, b"\xff\xff\xff\x7f"),
    "a member of another size": lambda: patched(zipped(*GOOD), 20, b"\xff\xff\xff\x7f" * 2),
    "members that are changed": lambda: zipped(*GOOD, method=zipfile.ZIP_DEFLATED).replace(b"\x01", b"\x02"),
    "a configuration that expands": lambda: zipped(
        ("config.json", b" " * (1 << 28)), GOOD[1], method=zipfile.ZIP_DEFLATED
    ),
    "weights that expand": lambda: zipped(
        GOOD[0], ("model.weights.h5", bytes(1 << 28)), method=zipfile.ZIP_DEFLATED
    ),
    "a configuration in another code": lambda: zipped(
        ("config.json", MODEL.decode().encode("utf-16")), GOOD[1]
    ),
    "another compression": lambda: zipped(*GOOD, method=zipfile.ZIP_BZIP2),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives(server: Server, tmp_path: Path, name: str) -> None:
    path = tmp_path / "m.keras"
    path.write_bytes(ARCHIVES[name]())
    end = convert(server, path)
    assert name in ("another compression", "a configuration in another code") or end.status


def changed(path: Path, change: Callable[[h5py.File], None]) -> Path:
    legacy(
        path,
        sequential(layer("Dense", "d", units=3, batch_input_shape=[None, 4])),
        {"d": {"d/kernel": W, "d/bias": B}},
    )
    with h5py.File(path, "r+") as file:
        change(file)
    return path


def attribute(group: str, name: str, value: Any) -> Callable[[h5py.File], None]:
    return lambda file: file[group].attrs.__setitem__(name, value)


LEGACY: dict[str, Callable[[h5py.File], None]] = {
    "a configuration that is a number": attribute("/", "model_config", 3),
    "a configuration that is no JSON": attribute("/", "model_config", "x"),
    "Keras 1": attribute("/", "keras_version", "1.2.2"),
    "names that are numbers": attribute("model_weights", "layer_names", [1, 2]),
    "names of other layers": attribute("model_weights", "layer_names", [b"e"]),
    "too many weights": attribute("model_weights/d", "weight_names", [b"a"] * 1000),
    "weights that are missing": attribute("model_weights/d", "weight_names", [b"a", b"b"]),
    "weights above": attribute("model_weights/d", "weight_names", [b"../../x", b"/"]),
    "a deep path": attribute("model_weights/d", "weight_names", [b"a/" * 5000, b"b"]),
    "no names": lambda file: file["model_weights"].attrs.__delitem__("layer_names"),
    "no weights": lambda file: file.__delitem__("model_weights"),
    "a link to another file": lambda file: file["model_weights"].__setitem__(
        "e", h5py.ExternalLink("/etc/x", "/")
    ),
}


@pytest.mark.parametrize("name", LEGACY)
def test_legacy_files(server: Server, tmp_path: Path, name: str) -> None:
    end = convert(server, changed(tmp_path / "m.h5", LEGACY[name]))
    assert name == "a link to another file" or end.status


@pytest.mark.slow
def test_a_file_that_the_library_never_ends_to_read(server: Server, tmp_path: Path) -> None:
    path = legacy(tmp_path / "m.h5", plain(), {})
    content = path.read_bytes()
    size = content.index(b"GCOL") + 24  # of the first object in the heap of texts
    path.write_bytes(content[:size] + (-16 & (1 << 64) - 1).to_bytes(8, "little") + content[size + 8 :])
    assert "the HDF5 library" in convert(server, path).errors
