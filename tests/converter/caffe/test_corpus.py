"""Real Caffe and Caffe2 nets: references, refusals, the vendor's compilation."""

from __future__ import annotations

import importlib
import math
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from tests.converter.caffe import nets
from tests.support.corpus_models import relative_error
from xdlc.converter.caffe import layers, registry
from xdlc.errors import UnsupportedOp, XdlcError, each_problem

pytestmark = pytest.mark.corpus

REFERENCED = {
    "caffe/cifar10_quick": 1,
    "caffe/lenet_mnist": 0,
    "caffe/mtcnn_det1": 1,
    "caffe/retinaface_mnet25": 10,
    "caffe/ultraface_rfb320": 1,
    "caffe/wechat_qr_detect": 0,
    "caffe2/nns_mobilenet_cifar": 1,
    "caffe2/trafficlight_squeezenet": 1,
}
"""Nets with weights and references, and how many Transposes their inputs and outputs need."""
BARE = {
    "alexnet": {"data": (1, 3, 227, 227)},
    "googlenet": {"data": (1, 3, 224, 224)},
    "mobilenet_ssd": None,
    "mobilenet_v1": None,
    "rcnn": {"data": (1, 3, 227, 227)},
}
"""Nets without weights, and the shapes that are to have instead of their own."""
HEADS = ("mbox_loc", "mbox_conf_flatten")
"""Where nets end whose detection the host computes."""
COMPILED = (
    "caffe/cifar10_quick caffe/mtcnn_det1 caffe/retinaface_mnet25 caffe/ultraface_rfb320 "
    "caffe/wechat_qr_detect caffe2/trafficlight_squeezenet alexnet googlenet mobilenet_ssd"
).split()
TOLERANCE = 1e-4


def files(folder: Path) -> tuple[Path, Path]:
    """Return the net and the weights in a folder."""
    if folder.parent.name == "caffe2":
        return folder / "predict_net.pb", folder / "init_net.pb"
    return next(folder.glob("*.prototxt")), next(folder.glob("*.caffemodel"))


def reference(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return recorded inputs and outputs; of large outputs, every third element."""
    (path,) = folder.glob("*.npz")
    inputs, outputs = {}, {}
    with np.load(path) as arrays:
        for key in arrays.files:
            kind, _, name = key.partition("::")
            if kind == "in":
                inputs[name] = arrays[key]
            elif kind.startswith("out") and kind != "outshape":
                outputs[name] = arrays[key]
    return inputs, outputs


def transposes(model: xdlc.Model) -> int:
    return sum(op.type == "Transpose" for op in model.main.ops)


@pytest.mark.parametrize("name", list(REFERENCED))
def test_computes_what_was_recorded(corpus: Path, tmp_path: Path, name: str) -> None:
    net, weights = files(corpus / name)
    inputs, outputs = reference(corpus / name)
    dims = {key: array.shape for key, array in inputs.items()}
    model = xdlc.convert(net, weights=weights, input_dims=dims, notify=lambda _: None)
    assert transposes(model) == REFERENCED[name]
    xdlc.save(model, tmp_path / "net.dlc")
    found = xdlc.run(tmp_path / "net.dlc", inputs)
    assert found.keys() == outputs.keys()
    for key, want in outputs.items():
        have = found[key] if found[key].shape == want.shape else found[key].reshape(-1)[::3]
        assert have.shape == want.shape
        assert relative_error(have, want) <= TOLERANCE
        assert np.abs(have - want).max() <= TOLERANCE


@pytest.mark.parametrize("name", [*BARE, "mtcnn_det2", "lenet_train_test"])
def test_a_net_without_its_weights_is_refused(corpus: Path, name: str) -> None:
    folder = corpus / "caffe" / name
    options: dict[str, Any] = {"weights": files(folder)[1]} if folder.is_dir() else {}
    folder = folder if folder.is_dir() else corpus / "caffe/proto_only" / name
    if name == "lenet_train_test":
        options["input_dims"] = {"data": (1, 1, 28, 28)}
    with pytest.raises(XdlcError) as caught:
        xdlc.convert(next(folder.glob("*.prototxt")), notify=lambda _: None, **options)
    for problem in each_problem(caught.value):
        assert "line " in str(problem.where)
        assert "weight" in problem.problem
        assert problem.fix


def test_a_predict_net_alone_is_refused(corpus: Path) -> None:
    folder = corpus / "caffe2/squeeze_predict_aicamera_only"
    with pytest.raises(XdlcError, match="weights and input shape") as caught:
        xdlc.convert(folder / "squeeze_predict_net.pb", notify=lambda _: None)
    assert not isinstance(caught.value, UnsupportedOp)


def random_weights(net: Path, **options: Any) -> bytes:
    """Return weights for a net, of the shapes that its layers need."""
    generator, blobs = np.random.default_rng(17), {}

    def weights(node: Any, g: Any, *shapes: Any) -> list[Any]:
        arrays = []
        for shape in map(tuple, shapes):
            scale = math.sqrt(2 / math.prod(shape[1:]))
            plain = generator.uniform(0.5, 1.5, shape)
            arrays.append((generator.normal(0, scale, shape) if len(shape) > 1 else plain).astype(np.float32))
        blobs[node.own_name] = arrays
        return [g.builder.const(array) for array in arrays]

    with pytest.MonkeyPatch.context() as patch:
        for entry in pkgutil.iter_modules(layers.__path__):
            module = importlib.import_module(f"{layers.__name__}.{entry.name}")
            if getattr(module, "weights", None) is registry.weights:
                patch.setattr(module, "weights", weights)
        xdlc.convert(net, notify=lambda _: None, **options)
    return nets.caffemodel(blobs)


@pytest.fixture(scope="module")
def converted(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], xdlc.Model]:
    """Return a function that converts a net without its detection on the host."""
    folder = tmp_path_factory.mktemp("weights")

    def convert(name: str) -> xdlc.Model:
        options: dict[str, Any] = {"notify": lambda _: None}
        if name in BARE:
            net = next((corpus / "caffe/proto_only" / name).glob("*.prototxt"))
            options["input_dims"] = BARE[name]
            options["weights"] = folder / f"{name}.caffemodel"
            options["weights"].write_bytes(random_weights(net, input_dims=BARE[name]))
        else:
            net, options["weights"] = files(corpus / name)
            options["input_dims"] = {key: each.shape for key, each in reference(corpus / name)[0].items()}
        if "ssd" in name or "wechat" in name:
            options["out_name"] = HEADS
        return xdlc.convert(net, **options)

    return convert


@pytest.mark.parametrize("name", list(BARE))
def test_a_net_with_random_weights_runs(converted: Callable[[str], xdlc.Model], name: str) -> None:
    model = converted(name)
    assert not [op.type for op in model.main.ops if op.package == "xdlc"]
    assert transposes(model) == 1
    generator = np.random.default_rng(5)
    feeds = {each.name: generator.random(each.shape, np.float32) for each in model.main.inputs}
    assert all(np.isfinite(array).all() for array in xdlc.run(model, feeds).values())


@pytest.mark.vendor
@pytest.mark.parametrize("name", COMPILED)
def test_the_vendor_compiles(
    converted: Callable[[str], xdlc.Model], vendor_check: Callable[..., Any], tmp_path: Path, name: str
) -> None:
    model = converted(name)
    generator = np.random.default_rng(5)
    feeds = {each.name: generator.random(each.shape, np.float32) for each in model.main.inputs}
    quantized = xdlc.quantize(model, [feeds])
    assert transposes(quantized) == transposes(model)
    for each in (model, quantized):
        xdlc.save(each, tmp_path / "net.dlc")
        answer = vendor_check("compile", tmp_path / "net.dlc", "--soc", "SM8650", "--out", tmp_path / "c.bin")
        assert answer["ok"], answer["reason"]
