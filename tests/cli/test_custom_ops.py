"""The converter's options about operations that users define."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import xdlc
from tests.support import commands
from tests.support.custom_ops import my_node, onnx_model
from xdlc.cli.tools import onnx_to_dlc
from xdlc.errors import UsageError

F32 = np.float32
SHAPES = """
from xdlc.udo import shape_function

@shape_function("My", "Scale")
def scale(op):
    return op.inputs[0].shape
"""

invoke = partial(commands.invoke, onnx_to_dlc.main)


def config(folder: Path, name: str, type: str) -> Path:
    place = {"name": "x", "data_type": "FLOAT_32"}
    op = {"type": type, "inputs": [place], "outputs": [{**place, "name": "y"}], "core_types": ["CPU"]}
    path = folder / name
    path.write_text(json.dumps({"UdoPackage_0": {"Operators": [op], "UDO_PACKAGE_NAME": "My"}}))
    return path


@pytest.fixture
def source(tmp_path: Path) -> Path:
    nodes = [my_node("Scale", ["x"], ["m"]), my_node("Shift", ["m"], ["y"])]
    onnx.save(onnx_model(nodes, {"x": (F32, [2])}, {"y": (F32, [2])}), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.mark.parametrize("form", ["words", "commas", "twice"])
def test_configurations_and_shape_functions(source: Path, tmp_path: Path, form: str) -> None:
    files = [config(tmp_path, "a, b.json", "Scale"), config(tmp_path, "c.json", "Shift")]
    shapes = tmp_path / "shapes.py"
    shapes.write_text(SHAPES)
    flags: list[Any] = {
        "words": ["-udo", *files],
        "commas": ["-udo", files[0], "-udo", f"{files[1]}, {files[1]}"],
        "twice": ["-udo", files[0], "-opc", files[1]],
    }[form]
    result = invoke("-i", source, *flags, "-cpl", shapes, "-o", tmp_path / "m.dlc")
    assert "user-defined ops: 2: My::Scale 1, My::Shift 1" in result.stdout
    model = xdlc.load(tmp_path / "m.dlc")
    assert [op.package for op in model.main.ops] == ["My", "My"]
    assert set(model.records) == {"xdlc.udo.My"}


def test_what_matches_nothing_is_told(source: Path, tmp_path: Path) -> None:
    files = [config(tmp_path, f"{name}.json", name) for name in ("Scale", "Shift", "Other")]
    shapes, unread = tmp_path / "shapes.py", tmp_path / "unread.py"
    shapes.write_text(SHAPES)
    unread.write_text(SHAPES.replace('"Scale"', '"Nothing"'))
    words = ["-i", source, "-udo", *files, "-cpl", f"{shapes},{unread}"]
    result = invoke(*words, "-opl", "libOps.so:provider", "-o", tmp_path / "m.dlc")
    assert "notice: no op of the model is My::Other" in result.stderr
    assert "notice: -opl has no effect" in result.stderr
    assert f"notice: xdlc does not use {unread}, because it infers the outputs of no op" in result.stderr
    result = invoke(*words, "--dry-run")
    assert "notice: no op of the model is My::Other" in result.stdout
    assert "user-defined ops  2: My::Scale 1, My::Shift 1" in result.stdout


def test_an_unknown_shape_names_the_ways_to_give_it(source: Path, tmp_path: Path) -> None:
    files = [config(tmp_path, f"{name}.json", name) for name in ("Scale", "Shift")]
    result = invoke("-i", source, "-udo", *files, "-o", tmp_path / "m.dlc", code=4)
    assert "Operators[0]): the shape of output 0 ('y') is not known" in result.stderr
    assert "--converter-op-package-lib" in result.stderr
    assert not (tmp_path / "m.dlc").exists()


def test_package_name_goes_without_configurations_of_packages(source: Path, tmp_path: Path) -> None:
    file = config(tmp_path, "a.json", "Scale")
    result = invoke("-i", source, "-opc", file, "-p", "Some", code=2)
    assert "--package-name and --op-package-config exclude each other" in result.stderr


def test_an_empty_path_is_refused(source: Path) -> None:
    assert "a path is empty" in invoke("-i", source, "-udo", "a.json,", code=2).stderr


def test_plugins_are_used_and_told_apart(source: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from xdlc.udo import Plugin\n"
        "class Scale(Plugin):\n"
        "    op_type, package = 'Scale', 'Mine'\n"
        "    inputs, outputs = ['x'], ['y']\n"
        "    def infer_shape_and_type(self, op):\n"
        "        return op.inputs[0]\n"
    )
    file = config(tmp_path, "c.json", "Shift")
    words = ["-i", source, "--plugin", f"{tmp_path / 'mine.py'}:Scale", "--no-plugins", "-udo", file]
    result = invoke(*words, "-o", tmp_path / "m.dlc")
    assert "user-defined ops: 2: Mine::Scale 1, My::Shift 1" in result.stdout


def test_the_python_interface_has_the_same_options(source: Path, tmp_path: Path) -> None:
    files = [config(tmp_path, f"{name}.json", name) for name in ("Scale", "Shift", "Other")]
    (tmp_path / "shapes.py").write_text(SHAPES)
    notes: list[str] = []
    options = {"udo_config_paths": files, "converter_op_package_lib": tmp_path / "shapes.py"}
    model = xdlc.convert(source, **options, notify=notes.append)
    assert [op.type for op in model.main.ops] == ["Scale", "Shift"]
    assert ["My::Other" in note for note in notes] == [True]
    assert ["My::Other" in notice for notice in xdlc.check(source, **options).notices] == [True]
    with pytest.raises(UsageError, match="convert has no option 'custom'"):
        xdlc.convert(source, custom=None)
    with pytest.raises(UsageError, match="convert has no option 'udo_config_path'") as caught:
        xdlc.convert(source, udo_config_path=files)
    assert "udo_config_paths" in str(caught.value.fix)
