"""One place states which values a type holds, for every reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import pytest
from onnx import TensorProto, helper

import xdlc
from tests.converter.pytorch.programs import TinyProgram
from tests.converter.tensorflow.tf_models import Graph
from tests.converter.tflite.flexbuffer_writer import flexbuffer
from tests.converter.tflite.models import TinyModel
from xdlc.errors import XdlcError
from xdlc.opdefs import values
from xdlc.udo import Plugin
from xdlc.udo.plugin import Int, same_as

LARGE = 1000


def onnx(folder: Path) -> Path:
    node = helper.make_node("Mine", ["x"], ["y"], domain="d", n=LARGE)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    model = helper.make_model(helper.make_graph([node], "m", [x], [y]), opset_imports=opsets)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "m.onnx"


def tensorflow(folder: Path) -> Path:
    return Graph().input("x", 2, 3).node("Mine", "m", ["x"], n=LARGE).save(folder / "m.pb")


def tflite(folder: Path) -> Path:
    model = TinyModel()
    x, y = model.tensor("x", [2, 3]), model.tensor("y", [2, 3])
    model.op("Mine", [x], [y], custom_options=flexbuffer({"n": LARGE}))
    return model.write(folder / "m.tflite", [x], [y])


def pytorch(folder: Path) -> Path:
    program = TinyProgram()
    ends = program.op("acme.Mine.default", program.input("x", (2, 3)), n=LARGE, results=[((2, 3), "float32")])
    return program.write(folder, ends)


class Mine(Plugin):
    framework, op_type, package, inputs, outputs = "onnx", "Mine", "P", ["x"], ["y"]
    params: ClassVar = {"n": Int()}

    def infer_shape_and_type(self, op):
        return same_as(op.inputs[0])


def config(folder: Path, **more: int) -> Path:
    tensors = [{"data_type": "FLOAT_32", "xdlc_shape": "same as in[0]"}]
    param = {"name": "n", "data_type": "INT_32", **more}
    op = {"type": "Mine", "inputs": [{"data_type": "FLOAT_32"}], "outputs": tensors, "core_types": ["CPU"]}
    package = {"UDO_PACKAGE_NAME": "P", "Operators": [{**op, "scalar_params": [param]}]}
    (folder / "c.json").write_text(json.dumps({"P": package}))
    return folder / "c.json"


def converts(model: Callable[[Path], Path]) -> Callable[[Path], object]:
    return lambda folder: xdlc.convert(model(folder), udo_config_paths=config(folder), no_plugins=True)


READERS: dict[str, Callable[[Path], object]] = {
    "default of a configuration": lambda folder: xdlc.convert(
        onnx(folder), udo_config_paths=config(folder, default=LARGE)
    ),
    "default of a plugin": lambda _: Int(LARGE),
    "parameter of a plugin": lambda folder: xdlc.convert(onnx(folder), plugin=[Mine], no_plugins=True),
    **{model.__name__: converts(model) for model in (onnx, tensorflow, tflite, pytorch)},
}


@pytest.mark.parametrize("reader", READERS)
def test_a_wrong_bound_changes_every_reader(
    reader: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    READERS[reader](tmp_path)
    monkeypatch.setattr(values, "bounds", lambda dtype: (-5, 5))
    with pytest.raises(XdlcError, match="1000"):
        READERS[reader](tmp_path)
