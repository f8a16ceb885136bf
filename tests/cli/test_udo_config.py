"""``xdlc-udo-config``: files, flags and messages."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import Result
from onnx import helper

import xdlc
from tests.support.commands import invoke as run_tool
from tests.support.custom_ops import my_node, onnx_model
from tests.udo.config.test_reader import TEMPLATE
from xdlc.cli.main import main as xdlc_main
from xdlc.cli.tools import udo_config
from xdlc.udo.config import read

F32 = np.float32


def invoke(*words: object, code: int = 0, tool: Any = udo_config.main) -> Result:
    return run_tool(tool, *words, code=code)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.json"
    path.write_text(TEMPLATE % ("MyOp", "", ""))
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    nodes = [
        my_node("Blur", ["x", "", "w"], ["a"], radius=2, mode="fast"),
        my_node("Join", ["a", "x"], ["b"]),
        helper.make_node("Join", ["a", "b", "x"], ["c"], name="again", domain="my.domain"),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    infos = {name: (F32, [1, 3, 4, 4]) for name in "abc"}
    given = {"w": np.ones((3,), np.int64)}
    path = tmp_path / "model.onnx"
    onnx.save(
        onnx_model(nodes, {"x": (F32, [1, 3, 4, 4])}, {"y": (F32, [1, 3, 4, 4])}, given, infos=infos), path
    )
    return path


def test_there_and_back(config: Path, tmp_path: Path) -> None:
    target = tmp_path / "config.xml"
    result = invoke("convert", config, "-o", target)
    assert (result.stdout, result.stderr) == (f"written: {target}\n", "")
    assert target.read_text().startswith('<?xml version="1.0"')
    again = tmp_path / "again.json"
    assert invoke("convert", target, "-o", again).stderr == ""
    assert read(again) == read(config) == read(target)


def test_standard_output_gets_the_other_form(config: Path) -> None:
    result = invoke("convert", config, "-o", "-")
    assert result.stdout.startswith("<?xml")
    assert invoke("convert", config, "-o", "-", "--form", "json").stdout.startswith("{\n")


def test_what_json_cannot_say_is_a_notice(tmp_path: Path, config: Path) -> None:
    source, plain, full = tmp_path / "a.xml", tmp_path / "plain.json", tmp_path / "full.json"
    invoke("convert", config, "-o", source)
    source.write_text(source.read_text().replace('Domain=""', 'Domain="com.me"'))
    told = invoke("convert", source, "-o", plain).stderr
    assert "package 'MyCustomUdoPackage': JSON cannot express Domain" in told
    assert "--extended" in told
    assert invoke("convert", source, "-o", full, "--extended").stderr == ""
    assert '"xdlc_domain": "com.me"' in full.read_text()
    assert invoke("convert", source, "-o", plain, code=0).exit_code == 0


def test_several_packages(tmp_path: Path, config: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text(config.read_text().replace("MyCustomUdoPackage", "Other"))
    both = tmp_path / "both.json"
    invoke("convert", config, other, "-o", both, "--form", "json")
    assert [held.package for held in read(both)] == ["MyCustomUdoPackage", "Other"]
    assert (
        "holds only one package, not MyCustomUdoPackage, Other"
        in invoke("convert", both, "-o", tmp_path / "one.xml", code=2).stderr
    )
    assert not (tmp_path / "one.xml").exists()
    invoke("convert", both, "-o", tmp_path / "one.xml", "--package", "Other")
    assert [held.package for held in read(tmp_path / "one.xml")] == ["Other"]
    assert "nearest: Other" in invoke("convert", both, "-o", "-", "--package", "Othr", code=2).stderr
    folder = tmp_path / "folder"
    folder.mkdir()
    invoke("convert", both, "-o", folder)
    assert sorted(path.name for path in folder.iterdir()) == ["MyCustomUdoPackage.xml", "Other.xml"]


def test_nothing_is_written_where_anything_is_wrong(tmp_path: Path, config: Path) -> None:
    target = tmp_path / "out.xml"
    target.write_text("as it was")
    bad = tmp_path / "bad.json"
    bad.write_text(TEMPLATE % ("MyOp", ";", ","))
    result = invoke("convert", bad, "-o", target, code=3)
    assert f"{bad}:11: " in result.stderr
    assert "fix: " in result.stderr
    assert target.read_text() == "as it was"
    assert "would replace the input" in invoke("convert", config, "-o", config, code=2).stderr
    assert (
        "folder does not exist" in invoke("convert", config, "-o", tmp_path / "no" / "a.xml", code=8).stderr
    )
    assert (
        "XML and JSON"
        in invoke("convert", config, _xml(tmp_path, config), "-o", tmp_path / "a.txt", code=2).stderr
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "bad.json",
        "config.json",
        "config.xml",
        "out.xml",
    ]


def _xml(folder: Path, config: Path) -> Path:
    path = folder / "config.xml"
    invoke("convert", config, "-o", path)
    path.write_text(path.read_text().replace("MyCustomUdoPackage", "Other"))
    return path


def test_validate_lists_everything(tmp_path: Path, config: Path) -> None:
    result = invoke("validate", config)
    assert result.stdout == f"{config}: package MyCustomUdoPackage: MyOp\n"
    twin, bad = tmp_path / "twin.json", tmp_path / "bad.json"
    twin.write_text(config.read_text())
    bad.write_text(config.read_text().replace('"GPU",', '"GPO",').replace('"static": true', '"static": 1'))
    result = invoke("validate", config, twin, bad, code=3)
    assert result.stdout.count("package MyCustomUdoPackage: MyOp") == 2
    assert "4 problem(s)" in result.stderr
    op = "UdoPackage_0.Operators[0]"
    for part in ("inputs[0].static", "inputs[1].static", "core_types[1]"):
        assert f"{bad}: {op}.{part}: " in result.stderr
    assert f"{twin}: {op}: package MyCustomUdoPackage has operator MyOp twice" in result.stderr
    note = tmp_path / "note.json"
    note.write_text(config.read_text().replace('"Operators"', '"SNPE_UDO_ROOT": "", "Operators"'))
    assert "notice: " in invoke("validate", note).stderr


@pytest.mark.parametrize("form", ["xml", "json"])
def test_a_draft_is_valid_and_converts_its_model(form: str, model: Path, tmp_path: Path) -> None:
    target = tmp_path / f"draft.{form}"
    result = invoke("from-model", model, "-o", target, "-p", "Pack")
    assert result.stdout == f"written: {target}\n"
    assert "my.domain::Blur: in[1]: nothing states the data type: xdlc assumes float32" in result.stderr
    assert invoke("validate", target).stdout == f"{target}: package Pack: Blur, Join\n"
    (collection,) = read(target)
    blur, join = collection.opdefs
    assert collection.domain == "my.domain"
    assert [(one.mandatory, one.is_static) for one in blur.inputs] == [
        (True, False),
        (False, False),
        (False, True),
    ]
    assert [one.repeated for one in join.inputs] == [True]
    assert str(tmp_path) not in target.read_text()
    made = xdlc.convert(model, udo_config_paths=[target])
    ops = [op for op in made.main.ops if op.package == "Pack"]
    assert [op.type for op in ops] == ["Blur", "Join", "Join"]
    assert (ops[0].param("radius"), ops[0].param("mode"), ops[0].inputs[1]) == (2, "fast", None)
    assert len(ops[2].inputs) == 3


def test_drafts_are_the_same_every_time(model: Path, tmp_path: Path) -> None:
    texts = {invoke("from-model", model, "-o", "-").stdout for _ in range(2)}
    assert len(texts) == 1
    assert invoke("from-model", model, "-o", "-", "--form", "json").stdout.startswith("{\n")


def test_what_is_defined_already_is_not_drafted(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "draft.xml"
    invoke("from-model", model, "-o", target)
    assert (
        "xdlc can already map every operator of the model"
        in invoke("from-model", "-udo", target, model, "-o", tmp_path / "more.xml", code=2).stderr
    )
    assert not (tmp_path / "more.xml").exists()


def test_strings_are_refused_and_the_rest_is_written(tmp_path: Path) -> None:
    path, target = tmp_path / "model.onnx", tmp_path / "draft.xml"
    lower, blur = my_node("Lower", ["s"], ["t"]), my_node("Blur", ["x"], ["y"])
    onnx.save(onnx_model([lower], {"s": (str, [2])}, {"t": (F32, [2])}), path)
    result = invoke("from-model", path, "-o", target, code=4)
    assert "input 0 ('s') of my.domain::Lower is strings" in result.stderr
    assert not target.exists()
    both = onnx_model([lower, blur], {"s": (str, [2]), "x": (F32, [2])}, {"t": (F32, [2]), "y": (F32, [2])})
    onnx.save(both, path)
    result = invoke("from-model", path, "-o", target, "--datatypes", "FLOAT_32", code=4)
    assert "input 0 ('s') of my.domain::Lower is strings" in result.stderr
    (collection,) = read(target)
    assert [(op.name, [one.name for one in op.inputs[0].dtypes]) for op in collection.opdefs] == [
        ("Blur", ["float32"])
    ]


def test_other_problems_and_assumptions_are_told(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    nodes = [my_node("Blur", ["x"], ["a"]), my_node("Sharpen", ["a"], ["y"])]
    bad = helper.make_node("Reshape", ["x", "missing"], ["z"])
    onnx.save(onnx_model([*nodes, bad], {"x": (F32, [2])}, {"y": (F32, [2]), "z": (F32, [2])}), path)
    told = invoke("from-model", path, "-o", tmp_path / "draft.xml").stderr
    assert "has 1 other problem(s): " in told
    assert "my.domain::Blur: out[0]: the model states no shape of 'a'" in told


def test_the_shape_that_is_missing_is_all_that_is_missing(tmp_path: Path) -> None:
    path, target = tmp_path / "model.onnx", tmp_path / "draft.json"
    nodes = [my_node("Blur", ["x"], ["a"]), my_node("Sharpen", ["a"], ["y"])]
    onnx.save(onnx_model(nodes, {"x": (F32, [2])}, {"y": (F32, [2])}), path)
    invoke("from-model", path, "-o", target)
    with pytest.raises(xdlc.XdlcError, match="shape of output 0"):
        xdlc.convert(path, udo_config_paths=target)
    shapes = tmp_path / "shapes.py"
    shapes.write_text(
        "import xdlc.udo\n\n\n@xdlc.udo.shape_function('MyOps', 'Blur')\n"
        "def blur(op):\n    return op.inputs[0].shape\n"
    )
    made = xdlc.convert(path, udo_config_paths=target, converter_op_package_lib=shapes)
    assert [op.type for op in made.main.ops] == ["Blur", "Sharpen"]


def test_shapes_can_be_assumed_to_be_those_of_the_first_input(tmp_path: Path) -> None:
    path, target = tmp_path / "model.onnx", tmp_path / "draft.xml"
    nodes = [my_node("Blur", ["x"], ["a"]), my_node("Sharpen", ["a"], ["y"])]
    onnx.save(onnx_model(nodes, {"x": (F32, [2, 5])}, {"y": (F32, [1])}), path)
    told = invoke("from-model", path, "-o", target, "--same_shapes").stderr
    assert "Blur: out[0]: the model states no shape of 'a': xdlc assumes the shape of the first input" in told
    made = xdlc.convert(path, udo_config_paths=target)
    assert [op.outputs[0].shape for op in made.main.ops] == [(2, 5), (1,)]


def test_it_is_a_command_of_xdlc() -> None:
    assert "from-model" in invoke("udo-config", "--help", tool=xdlc_main).output


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("custom_mul", ["Custom_Mul"]),
        ("copy_2_inputs_2_outputs", ["CopyTensorArrayAllVariadic"]),
        ("copy_3_inputs_3_outputs", ["CopyTensorArrayCombined"]),
        ("optional_1", ["OptionalOp"]),
        ("optional_2", ["Box"]),
        ("optional_3", ["Box"]),
    ],
)
@pytest.mark.parametrize("form", ["xml", "json"])
def test_drafts_convert_models_of_the_corpus(
    name: str, types: list[str], form: str, corpus: Path, tmp_path: Path
) -> None:
    (model,) = (corpus / "onnx" / "ort_misc" / name).glob("*.onnx")
    target = tmp_path / f"draft.{form}"
    invoke("from-model", model, "-o", target)
    made = xdlc.convert(model, udo_config_paths=target)
    assert [op.type for op in made.main.ops if op.package == "MyOps"] == types


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "types", "shapeless"),
    [
        ("custom_op_test", ["CustomOpOne", "CustomOpTwo"], "output_1"),
        ("attr_tester", ["AttrTesterIntFloat", "AttrTesterString"], "m"),
        ("VariedInputCustomOp", ["Slice"], "slice_1"),
        ("custom_op_single_schema_multi_kernel", ["MulTop"], "mul_f32"),
    ],
)
def test_drafts_tell_the_shapes_that_the_corpus_does_not(
    name: str, types: list[str], shapeless: str, corpus: Path, tmp_path: Path
) -> None:
    (model,) = (corpus / "onnx" / "ort_misc" / name).glob("*.onnx")
    target = tmp_path / "draft.xml"
    result = invoke("from-model", model, "-o", target)
    assert f"the model states no shape of {shapeless!r}" in result.stderr
    assert [op.name for op in read(target)[0].opdefs] == types
    invoke("from-model", model, "-o", target, "--same_shapes")
    made = xdlc.convert(model, udo_config_paths=target)
    assert {op.type for op in made.main.ops if op.package == "MyOps"} == set(types)


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["merge", "custom_op_string_lower"])
def test_strings_of_the_corpus_are_refused(name: str, corpus: Path, tmp_path: Path) -> None:
    (model,) = (corpus / "onnx" / "ort_misc" / name).glob("*.onnx")
    assert (
        "is strings, but definitions" in invoke("from-model", model, "-o", tmp_path / "a.xml", code=4).stderr
    )
    assert not (tmp_path / "a.xml").exists()
