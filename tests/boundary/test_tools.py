"""Flags for inputs and outputs, of converters and of xdlc-graph-prepare."""

import numpy as np
import pytest
from click.testing import CliRunner

import xdlc
from xdlc.cli.tools.convert import main as convert
from xdlc.cli.tools.graph_prepare import main as prepare
from xdlc.prepare.edit import edit


@pytest.fixture
def path(models):
    return models.save(models.cnn())


def run(*words):
    result = CliRunner().invoke(convert, [str(word) for word in words])
    assert "internal error" not in result.output
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("words", "shape", "dtype"),
    [
        ("--desired_input_layout x NHWC", (1, 16, 16, 3), "float32"),
        ("--source_model_input_layout x nchw --input_dtype x uint8", (1, 3, 16, 16), "uint8"),
        ("--desired_input_layout x NHWC --preserve_io layout", (1, 3, 16, 16), "float32"),
        ("--preserve_io --desired_input_layout x NHWC", (1, 3, 16, 16), "float32"),
        ("--preserve_io datatype y x --desired_input_layout x NHWC", (1, 16, 16, 3), "float32"),
        ("--preserve_io_datatype x --input_dtype x uint8", (1, 3, 16, 16), "float32"),
        ("-t x image -l x NCHW --output_dtype y float16", (1, 3, 16, 16), "float32"),
    ],
)
def test_flags(path, tmp_path, words, shape, dtype):
    target = tmp_path / "out.dlc"
    code, output = run("-i", path, "-o", target, *words.split())
    assert code == 0, output
    (x,) = xdlc.load(target).main.inputs
    assert (x.shape, x.dtype.name) == (shape, dtype)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--desired_input_layout X NHWC", "'X'"),
        ("--desired_input_layout x NWHC", "NWHC"),
        ("--input_type x opaque --input_dtype x uint8", "opaque"),
        ("--input_dtype x uint8 --input_dtype x int8", "'x'"),
        ("--preserve_io layot", "layot"),
        ("--custom_io missing.yaml", "missing.yaml"),
    ],
)
def test_flags_that_are_wrong_name_the_word(path, words, named):
    code, output = run("-i", path, *words.split())
    assert code != 0
    assert named in output


def test_a_template_stops_before_the_dlc(path, tmp_path):
    target = tmp_path / "io.yaml"
    assert run("-i", path, "-o", tmp_path / "out.dlc", "--dump_custom_io_config_template", target)[0] == 0
    assert not (tmp_path / "out.dlc").exists()
    assert run("-i", path, "-o", tmp_path / "out.dlc", "--custom_io", target)[0] == 0


def test_a_template_has_the_source_with_the_shapes_that_are_bound(path, tmp_path):
    command = ("-i", path, "-o", tmp_path / "out.dlc", "-d", "x", "1,3,16,16")
    wanted = ("--desired_input_layout", "x", "NHWC", "--dump_config_template", tmp_path / "io.yaml")
    code, output = run(*command, *wanted)
    assert code == 0
    assert "--desired_input_layout" in output  # is not in the file
    assert "NHWC" not in (tmp_path / "io.yaml").read_text()
    assert run(*command, "--config", tmp_path / "io.yaml")[0] == 0
    assert run(*command[:-1], "1,3,32,32", "--config", tmp_path / "io.yaml")[0] == 2


def test_a_dlc_gets_another_boundary(path):
    x = np.floor(np.random.default_rng(2).random((1, 3, 16, 16), np.float32) * 200)
    plain = xdlc.convert(path)
    edited = edit(plain, boundary={"desired_input_layout": {"x": "NHWC"}, "input_dtype": {"x": "uint8"}})
    assert edited.metadata["layouts"] == {"x": "NHWC"}
    assert "Transpose" not in [op.type for op in edited.main.ops]
    feeds = {"x": x.transpose(0, 2, 3, 1).astype(np.uint8)}
    np.testing.assert_array_equal(xdlc.run(edited, feeds)["y"], xdlc.run(plain, {"x": x})["y"])
    back = edit(edited, boundary={"desired_input_layout": {"x": "NCHW"}})
    np.testing.assert_array_equal(
        xdlc.run(back, {"x": x.astype(np.uint8)})["y"], xdlc.run(plain, {"x": x})["y"]
    )


def test_names_that_are_no_text_are_errors(path):
    with pytest.raises(xdlc.XdlcError, match="input_layout"):
        xdlc.convert(path, input_layout={5: "NCHW"})
    with pytest.raises(xdlc.XdlcError, match="runtime 5"):
        xdlc.Session(xdlc.convert(path), runtime=5)


def test_a_dlc_has_a_template_too(path, tmp_path):
    dlc, target = tmp_path / "a.dlc", tmp_path / "io.yaml"
    xdlc.convert(path).save(dlc)
    words = [
        "--input_dlc",
        dlc,
        "--output_dlc",
        tmp_path / "b.dlc",
        "--dump_custom_io_config_template",
        target,
    ]
    result = CliRunner().invoke(prepare, [str(word) for word in words])
    assert result.exit_code == 0
    assert not (tmp_path / "b.dlc").exists()
    held = xdlc.load(dlc)
    assert edit(held, boundary={"custom_io": str(target)}).main.inputs[0].shape == held.main.inputs[0].shape
