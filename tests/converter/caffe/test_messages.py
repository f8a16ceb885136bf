"""Errors and notices that name the cause of a mistake in a net or in the call."""

from pathlib import Path

import numpy as np
import pytest

import xdlc
from tests.converter.caffe import nets
from xdlc.errors import UsageError, XdlcError

NET = nets.data(4, 2, 6, 6) + nets.layer("Convolution", "convolution_param { num_output: 3 kernel_size: 3 }")
KERNELS = {"y": [np.ones((3, 2, 3, 3), np.float32), np.zeros(3, np.float32)]}


@pytest.mark.parametrize("options", [{"batch": 1}, {"input_dims": {"data": (1, 2, 8, 8)}}])
def test_shapes_of_options_do_not_hide_that_weights_are_missing(tmp_path: Path, options: dict) -> None:
    with pytest.raises(XdlcError) as alone:
        nets.convert(tmp_path, NET)
    with pytest.raises(XdlcError) as refused:
        nets.convert(tmp_path, NET, **options)
    assert str(alone.value.fix) in str(refused.value.fix)


def test_a_batch_that_input_dim_contradicts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="batch"):
        nets.convert(tmp_path, NET, KERNELS, batch=4, input_dims={"data": (1, 2, 6, 6)})
    model = nets.convert(tmp_path, NET, KERNELS, batch=2, input_dims={"data": (2, 2, 6, 6)})
    assert model.main.inputs[0].shape[0] == 2


@pytest.mark.parametrize(
    ("right", "wrong", "named"),
    [
        ("kernel_size", "kernal_size", "kernal_size"),
        ("convolution_param", "conv_param", "conv_param.num_output"),
        ("num_output", "dilaton: 2 num_output", "convolution_param.dilation"),
        ("Convolution", "Convoluton", "nearest: Convolution"),
    ],
)
def test_misspelled_words_are_named(tmp_path: Path, right: str, wrong: str, named: str) -> None:
    with pytest.raises(XdlcError) as refused:
        nets.convert(tmp_path, NET.replace(right, wrong, 1), KERNELS)
    assert named in str(refused.value.fix)


def test_notices_state_what_the_caller_has_to_do(tmp_path: Path) -> None:
    notices: list[str] = []
    text = (
        nets.layer("Data", "transform_param { scale: 0.25 mean_value: 104 mean_value: 117 }", "", "x label")
        + nets.layer("Reshape", "reshape_param { shape { dim: 1 dim: -1 dim: 6 } }", "x", "r")
        + nets.layer("SoftmaxWithLoss", "", "r label", "loss")
    )
    path, _ = nets.write(tmp_path, text)
    xdlc.convert(path, input_dims={"x": (2, 3, 4, 6)}, notify=notices.append)
    for words in ("scale 0.25, mean_value 104, mean_value 117", "joins 2 images", "out_name loss"):
        assert sum(words in notice for notice in notices) == 1
    notices.clear()
    xdlc.convert(path, input_dims={"x": (1, 3, 4, 6)}, notify=notices.append)
    assert not any("joins 2 images" in notice for notice in notices)


@pytest.mark.parametrize(
    "content", [b"<!DOCTYPE html><html></html>", b"version https://git-lfs.github.com/spec/v1"]
)
def test_what_a_download_left_is_named(tmp_path: Path, content: bytes) -> None:
    for name in ("net.prototxt", "net.caffemodel"):
        path, files = nets.write(tmp_path, NET, KERNELS)
        (tmp_path / name).write_bytes(content)
        with pytest.raises(XdlcError, match=r"HTML|git LFS"):
            xdlc.convert(path, framework="caffe", **files)


def test_a_product_of_transposed_weights_is_no_inserted_op(tmp_path: Path) -> None:
    text = NET + nets.layer("InnerProduct", "inner_product_param { num_output: 5 }", "y", "fc")
    weights = {**KERNELS, "fc": [np.ones((5, 48), np.float32), np.zeros(5, np.float32)]}
    product = next(op for op in nets.convert(tmp_path, text, weights).main.ops if op.type == "FullyConnected")
    assert (product.origin.nodes, product.origin.reason) == (("fc",), None)


def test_a_mapped_operator_after_an_unknown_one_is_drafted_with_it(tmp_path: Path) -> None:
    text = nets.data(1, 2, 3) + nets.layer("Own", top="x") + nets.layer("Reduction", bottom="x")
    path, _ = nets.write(tmp_path, text)
    (text,) = xdlc.api.draft_udo_config(path, operators=["Reduction"], same_shapes=True).texts.values()
    assert all(f"<Name>{name}</Name>" in text for name in ("Own", "Reduction"))
