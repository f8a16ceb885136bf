from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import xdlc
from tests.support.protobuf import field
from xdlc.converter import formats
from xdlc.converter.formats import Format, recognize
from xdlc.errors import ContainerError, ModelError, UsageError


def zipped(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, "content")
    return buffer.getvalue()


NODE = field(1, field(1, b"x") + field(2, b"Placeholder"))
SAFE = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
FILES = {
    "empty": (b"", formats.EMPTY),
    "tflite": (b"\x1c\0\0\0TFL3" + bytes(40), formats.TFLITE),
    "ort": (b"\x1c\0\0\0ORTM" + bytes(40), formats.ORT),
    "torchscript": (zipped("net/data.pkl", "net/code/__torch__.py"), formats.TORCH_SCRIPT),
    "checkpoint": (zipped("archive/data.pkl", "archive/data/0"), formats.TORCH_CHECKPOINT),
    "pt2": (zipped("archive_format", "models/model.json", "data/weights/w"), formats.TORCH_EXPORT),
    "pt2 of torch 2.6": (
        zipped("serialized_exported_program.json", "serialized_state_dict.pt", "version"),
        formats.TORCH_EXPORT,
    ),
    "aotinductor": (
        zipped("m/archive_format", "m/data/aotinductor/model/a.so", "m/data/weights/w"),
        formats.TORCH_COMPILED,
    ),
    "lite": (zipped("m/data.pkl", "m/code/__torch__.py", "m/bytecode.pkl"), formats.TORCH_SCRIPT),
    "lite without code": (zipped("m/data.pkl", "m/bytecode.pkl"), formats.TORCH_BYTECODE),
    "lite flatbuffer": (b"\x1c\0\0\0PTMF" + bytes(40), formats.TORCH_BYTECODE),
    "executorch": (b"\x1c\0\0\0ET12" + bytes(40), formats.EXECUTORCH),
    "checkpoint of torch 0.1": (
        b"pickle".ljust(257, b"\0") + b"ustar" + bytes(250),
        formats.TORCH_CHECKPOINT,
    ),
    "checkpoint of torch 1.5": (b"\x80\x02\x8a\nl\xfc\x9c\x46\xf9", formats.TORCH_CHECKPOINT),
    "keras": (zipped("metadata.json", "config.json", "model.weights.h5"), formats.KERAS),
    "h5": (b"\x89HDF\r\n\x1a\n" + bytes(64), formats.KERAS),
    "zip": (zipped("a/model.onnx"), formats.ZIP),
    "cut zip": (zipped("a/data.pkl", "a/models/model.json")[:-30], formats.CUT_ZIP),
    "npz": (zipped("x.npy"), formats.NUMPY),
    "safetensors": (len(SAFE).to_bytes(8, "little") + SAFE + bytes(4), formats.SAFETENSORS),
    "graphdef": (NODE * 3 + field(4, field(1, 27)), formats.GRAPH_DEF),
    "savedmodel": (field(1, 1) + field(2, field(1, b"\x22\x05serve") + field(2, NODE)), formats.SAVED_MODEL),
    "caffemodel": (field(1, b"LeNet") + field(100, field(1, b"conv1")), formats.CAFFE_WEIGHTS),
    "caffemodel.h5": (b"\x89HDF\r\n\x1a\n" + bytes(64) + b"HEAP\0data\0", formats.CAFFE_WEIGHTS),
    "caffemodel v1": (
        field(1, b"t") + field(2, field(4, b"c") + field(5, 4) + field(6, b"\x08\1")),
        formats.CAFFE_WEIGHTS,
    ),
    "caffemodel v0": (
        field(1, b"t") + field(2, field(1, field(1, b"c") + field(2, b"conv"))),
        formats.CAFFE_WEIGHTS,
    ),
    "metagraph": (field(1, b"\x22\x05serve") + field(2, NODE), formats.META_GRAPH),
    "metagraph text": (b'meta_info_def {\n  stripped_op_list { op { name: "A" } }', formats.META_GRAPH),
    "savedmodel text": (
        b"saved_model_schema_version: 1 meta_graphs { stripped_op_list { op { } } }",
        formats.SAVED_MODEL,
    ),
    "solver": (b'net: "net.prototxt"\nbase_lr: 0.01\n', formats.CAFFE_SOLVER),
    "prototxt in one line": (b'name: "n" layer <type: "ReLU">', formats.CAFFE),
    "caffe2 text": (b'name: "n" op { type: "Relu" }', formats.CAFFE2),
    "prototxt": (b'name: "LeNet"\nlayer {\n  type: "Input"\n}', formats.CAFFE),
    "caffe2": (
        field(1, b"net") + field(2, field(1, b"a") + field(2, b"b") + field(4, b"Conv")),
        formats.CAFFE2,
    ),
    "openvino": (b'<?xml version="1.0"?>\n<net name="a" version="11">', formats.OPENVINO),
    "html": (b"\n<!DOCTYPE html>\n<html lang=en>", formats.HTML),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", formats.LFS),
    "gz": (b"\x1f\x8b\x08" + bytes(20), None),
    "tensor": (field(1, 3) + field(2, 1) + field(8, b"x") + field(9, bytes(12)), formats.ONNX_TENSOR),
    "checkpoint index": (bytes(40) + 0xDB4775248B80FB57.to_bytes(8, "little"), formats.CHECKPOINT),
    "json": (b'{"a": 1}', formats.JSON),
}


READ = (
    formats.TORCH_EXPORT,
    formats.TORCH_SCRIPT,
    formats.GRAPH_DEF,
    formats.META_GRAPH,
    formats.SAVED_MODEL,
    formats.KERAS,
    formats.TFLITE,
    formats.CAFFE,
    formats.CAFFE2,
)
"""Formats that an importer reads."""


@pytest.mark.parametrize("name", [name for name, (_, expected) in FILES.items() if expected in READ])
def test_formats_are_recognized(tmp_path: Path, name: str) -> None:
    path = tmp_path / "model"
    path.write_bytes(FILES[name][0])
    assert recognize(path) is FILES[name][1]


@pytest.mark.parametrize("name", [name for name, (_, expected) in FILES.items() if expected not in READ])
def test_other_formats_are_named(tmp_path: Path, name: str) -> None:
    content, expected = FILES[name]
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    recognized = recognize(path)
    assert isinstance(recognized, Format)
    assert expected in (recognized, None)
    with pytest.raises(ModelError) as caught:
        xdlc.convert(path)
    assert recognized.name in caught.value.problem
    assert caught.value.fix == recognized.fix_for(path)
    if recognized is not formats.ZIP:  # which may hold records of a DLC that are not known
        with pytest.raises(ContainerError, match=recognized.name):
            xdlc.load(path)


def test_a_dlc_is_named(models: Any) -> None:
    path = models.folder / "a.dlc"
    xdlc.save(xdlc.convert(models.save(models.cnn())), path)
    assert recognize(path) is formats.DLC


def test_a_model_that_is_not_converted_yet(models: Any) -> None:
    with pytest.raises(ContainerError, match="an ONNX model, not a DLC") as caught:
        xdlc.quantize(models.save(models.cnn()), [])
    assert "convert" in caught.value.fix


@pytest.mark.parametrize(
    ("fill", "said"),
    [
        (lambda path: (path / "config.json").touch(), "Hugging Face"),
        (lambda path: (path / "a.onnx").touch(), "name the model inside: .*a.onnx"),
        (lambda path: (path / "model.ckpt.meta").touch(), "name the model inside: .*model.ckpt.meta"),
        (lambda path: None, "a folder"),
    ],
)
def test_folders(tmp_path: Path, fill: Callable[[Path], Any], said: str) -> None:
    fill(tmp_path)
    with pytest.raises(ModelError, match=said) as caught:
        xdlc.convert(tmp_path)
    assert ("a.onnx" in str(caught.value.fix)) is (tmp_path / "a.onnx").exists()


def test_onnx_and_noise_are_of_no_other_format(models: Any, tmp_path: Path) -> None:
    assert recognize(models.save(models.cnn())) is formats.ONNX
    whole = models.save(models.cnn()).read_bytes()
    rng = np.random.default_rng(1)
    for number in range(64):
        path = tmp_path / "noise"
        path.write_bytes(rng.bytes(200) if number % 2 else whole[: int(rng.integers(1, len(whole)))])
        recognize(path)  # which raises nothing
    onnx.save(onnx.ModelProto(ir_version=8), tmp_path / "none.onnx")
    with pytest.raises(ModelError, match="no graph"):
        xdlc.convert(tmp_path / "none.onnx", framework="onnx")


def test_a_model_whose_graph_comes_first_is_onnx(models: Any, tmp_path: Path) -> None:
    proto = onnx.load(models.save(models.cnn()))
    last = onnx.ModelProto(ir_version=proto.ir_version, opset_import=proto.opset_import)
    path = tmp_path / "m.bin"
    path.write_bytes(onnx.ModelProto(graph=proto.graph).SerializeToString() + last.SerializeToString())
    assert recognize(path) is formats.ONNX
    assert len(xdlc.convert(path).main)


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        (b"some words\nmore", "text that begins with 'some words'"),
        (b"\xff\0\1", "3 bytes that begin with ff 00"),
    ],
)
def test_an_unknown_file_is_described(tmp_path: Path, content: bytes, seen: str) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=seen):
        xdlc.convert(path)


def test_frameworks_are_named(models: Any) -> None:
    with pytest.raises(UsageError, match="no framework 'onx'") as caught:
        xdlc.convert(models.save(models.cnn()), framework="onx")
    assert caught.value.fix == "nearest: onnx"


def test_options_of_an_importer_come_by_name_too(models: Any) -> None:
    nodes = [onnx.helper.make_node("Relu", ["x"], ["y"])]
    path = models.save(models.make(nodes, {"x": ["n", 2]}, {"y": ["n", 2]}))
    model = xdlc.convert(path, importer_options={"define_symbol": {"n": 3}})
    assert model.main.inputs[0].shape == (3, 2)
    with pytest.raises(UsageError, match="not an option for an ONNX model") as caught:
        xdlc.convert(path, importer_options={"define_symbols": {"n": 3}})
    assert caught.value.fix == "nearest: define_symbol"
    with pytest.raises(UsageError, match="importer_options is of type list"):
        xdlc.convert(path, importer_options=["define_symbol"])


def test_the_framework_of_a_model_in_memory_is_checked(models: Any) -> None:
    proto = onnx.load(models.save(models.cnn()))
    assert len(xdlc.convert(proto, framework="onnx").main)
    with pytest.raises(UsageError, match="no framework 'onx'"):
        xdlc.convert(proto, framework="onx")
