"""Tests of ``xconv-caffe2-to-dlc``, and of drafts of UDOs."""

import numpy as np
import pytest
from click.testing import CliRunner

import xdlc
from tests.converter.caffe2.nets import TinyNet
from xdlc import api
from xdlc.cli.tools import caffe2_to_dlc, convert
from xdlc.errors import UsageError


@pytest.fixture
def nets(tmp_path):
    made = TinyNet().op("Mul", ["data", "w"], ["y"])
    made.fill("w", np.float32([2]))
    return made.write(tmp_path)


@pytest.mark.parametrize(
    ("tool", "flags"),
    [
        (caffe2_to_dlc, "-p {} -e {} -d data 1,3 -o {}"),
        (caffe2_to_dlc, "--predict_net {} --exec_net {} --input_dim data 1,3 --dlc {}"),
        (convert, "-i {} --exec_net {} -d data 1,3 -o {}"),
        (convert, "-i {} --weights {} -d data 1,3 -o {}"),
    ],
)
def test_flags(nets, tmp_path, tool, flags):
    done = CliRunner().invoke(tool.main, flags.format(*nets, tmp_path / "m.dlc").split())
    assert done.exit_code == 0, done.output
    got = xdlc.run(tmp_path / "m.dlc", {"data": np.ones((1, 3), np.float32)})["y"]
    np.testing.assert_array_equal(got, [[2, 2, 2]])
    assert xdlc.load(tmp_path / "m.dlc").metadata


def test_what_is_missing_is_named_in_flags_and_in_options(nets):
    done = CliRunner().invoke(caffe2_to_dlc.main, ["-p", str(nets[0])])
    assert "--weights" in done.stderr
    assert "--input-dim data" in done.stderr
    with pytest.raises(UsageError) as caught:
        xdlc.convert(nets[0])
    assert "pass weights " in str(caught.value.fix)
    assert "input_dims data" in str(caught.value.fix)


def test_a_definition_of_an_unknown_operator_is_drafted(tmp_path):
    made = TinyNet().op("Twist", ["data", "w"], ["y"], alpha=0.5, names=["a", "b"])
    made.fill("w", np.float32([2]))
    predict, init = made.write(tmp_path)
    draft = api.draft_udo_config(
        predict, weights=init, input_dims={"data": [1, 3]}, form="json", same_shapes=True
    )
    (tmp_path / "udo.json").write_text(draft.texts["-"])
    model = xdlc.convert(
        predict, {"data": [1, 3]}, weights=init, udo_config_paths=[tmp_path / "udo.json"], no_plugins=True
    )
    (op,) = model.main.ops
    assert (op.type, {name: value.value for name, value in op.params.items() if name == "alpha"}) == (
        "Twist",
        {"alpha": 0.5},
    )
