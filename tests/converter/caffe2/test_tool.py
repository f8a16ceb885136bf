"""Tests of ``xconv-caffe2-to-dlc``, of drafts of UDOs and of real nets."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import xdlc
from tests.converter.caffe2.nets import TinyNet
from xdlc import api
from xdlc.cli.tools import caffe2_to_dlc, convert
from xdlc.converter.formats import CAFFE2, recognize
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


def test_nets_are_recognized(nets, tmp_path):
    assert [recognize(path) for path in nets] == [CAFFE2, CAFFE2]
    texts = ['op { type: "Relu" }', 'name: "a" op {', '# made by hand\nexternal_input: "x"\nop <', "op: {"]
    for text in texts:
        (tmp_path / "n.pbtxt").write_text(text)
        assert recognize(tmp_path / "n.pbtxt") is CAFFE2, text


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


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["nns_mobilenet_cifar", "trafficlight_squeezenet"])
def test_real_nets(corpus: Path, name: str) -> None:
    folder = corpus / "caffe2" / name
    with np.load(folder / "ref_selfeval.npz") as held:
        inputs = {key[4:]: held[key] for key in held.files if key.startswith("in::")}
        outputs = {key[5:]: held[key] for key in held.files if key.startswith("out::")}
    shapes = {key: list(value.shape) for key, value in inputs.items()}
    model = xdlc.convert(folder / "predict_net.pb", shapes, weights=folder / "init_net.pb")
    got = xdlc.run(model, inputs)
    for key, value in outputs.items():
        np.testing.assert_allclose(got[key], value, atol=1e-4, rtol=1e-4)


@pytest.mark.corpus
def test_a_real_net_without_its_init_net(corpus: Path) -> None:
    with pytest.raises(
        UsageError, match=r"weights and input shape are missing: .* 53 of the values .*: '1', '2'"
    ):
        xdlc.convert(corpus / "caffe2" / "squeeze_predict_aicamera_only" / "squeeze_predict_net.pb")
