"""Real networks with input and output options, against onnxruntime and numpy."""

from __future__ import annotations

import numpy as np
import pytest

import xdlc
from tests.support.corpus_models import CorpusModel, relative_error
from tests.support.image_steps import preprocessed

pytestmark = pytest.mark.corpus
TOLERANCE = 1e-6
NETWORKS = (
    "light_bvlc_alexnet",
    "light_inception_v2",
    "light_resnet50",
    "light_squeezenet",
    "light_zfnet512",
    "yolox_nano",
    "ultraface_rfb320",
    "mtcnn_pnet",
    "mtcnn_rnet",
    "image_classifier32",
    "mlperf_resnet8",
    "mnist_cntk",
)
GREY = ("mnist_cntk",)
LAST = ("mtcnn_pnet", "mtcnn_rnet", "mlperf_resnet8")
MEAN, SCALE = "123.675,116.28,103.53", "0.0171,0.0175,0.0174"
CASES = {
    "other layout": {},
    "bytes": {"input_dtype": "uint8"},
    "swap": {"input_encoding": "bgr rgb"},
    "rgba": {"input_encoding": "rgba bgr"},
    "argb32": {"input_encoding": "argb32 rgb"},
    "nv12": {"input_encoding": "nv12 rgb"},
    "nv21": {"input_encoding": "nv21 bgr"},
    "mean": {"input_mean": MEAN},
    "scale": {"input_scale": SCALE},
    "mean and scale": {"input_mean": MEAN, "input_scale": SCALE, "input_dtype": "uint8"},
    "bilinear": {"input_resize": "2*H,W+7 bilinear"},
    "nearest": {"input_resize": "H+4,2*W nearest"},
    "crop": {"input_crop": "H+5,W+2"},
    "camera": {
        "input_encoding": "nv12 bgr",
        "input_crop": "2*H,4*W",
        "input_resize": "2*H,2*W",
        "input_mean": "127.5",
        "input_scale": "0.0078125",
    },
}


@pytest.fixture(scope="module")
def network(corpus):
    """Return a network by name; the last one is kept."""
    kept = {}

    def load(name):
        if name not in kept:
            kept.clear()
            kept[name] = CorpusModel(corpus, name)
        return kept[name]

    return load


def options_of(case, height, width):
    """Return the options of a case, sizes in numbers."""
    for option, value in CASES[case].items():
        words = value.split()
        if "W" in words[0]:
            words[0] = ",".join(str(eval(part, {"H": height, "W": width})) for part in words[0].split(","))
        yield option, " ".join(words)


def as_arguments(options):
    """Return options as arguments of the reference."""
    for option, value in options.items():
        parts = value.replace(",", " ").split()
        if option in ("input_mean", "input_scale"):
            yield option[6:], [float(part) for part in parts]
        elif option in ("input_crop", "input_resize"):
            yield option[6:], [int(part) if part.isdecimal() else part for part in parts]
        elif option == "input_encoding":
            yield "encoding", parts


def pairs():
    """Return networks with their cases: those of colours are for three channels."""
    return [
        (name, case)
        for name in NETWORKS
        for case, options in CASES.items()
        if name not in GREY or "input_encoding" not in options
    ]


@pytest.mark.parametrize(("name", "case"), pairs())
def test_matches_numpy_and_onnxruntime(network, name, case):
    model, is_last = network(name), name in LAST
    (port, array), *_ = model.feeds.items()
    _, *size = array.shape if is_last else np.moveaxis(array, 1, -1).shape
    options = dict(options_of(case, *size[:2]))
    if name in GREY:
        options |= {
            key: value.split(",")[0] for key, value in options.items() if key in ("input_mean", "input_scale")
        }
    requests = {option: {port: value} for option, value in options.items()}
    planar = options.get("input_encoding", "").startswith("nv")
    if not planar:
        requests["desired_input_layout"] = {port: "NCHW" if is_last else "NHWC"}
    if is_last:
        requests["input_layout"] = {port: "NHWC"}
    converted = xdlc.convert(model.path, input_dims={port: array.shape}, **requests)
    tensor = converted.main.inputs[0]
    fed = np.random.default_rng(3).integers(0, 256, tensor.shape).astype(tensor.dtype.numpy)
    image = np.moveaxis(fed, 1, -1) if is_last and not planar else fed
    wanted = preprocessed(image, tuple(size[:2]), **dict(as_arguments(options)))
    wanted = wanted if is_last else np.moveaxis(wanted, -1, 1)
    nudged = np.nextafter(wanted, np.where(wanted > wanted.mean(), np.inf, -np.inf).astype(np.float32))
    reference, moved = model.reference({port: wanted}), model.reference({port: nudged})
    found = xdlc.run(converted, {port: fed})
    for key, values in reference.items():
        # Folding changes the order of sums; some networks amplify the last bit beyond the tolerance.
        assert relative_error(found[key], values) <= max(TOLERANCE, 4 * relative_error(moved[key], values))


@pytest.mark.vendor
@pytest.mark.parametrize("case", ["bytes", "swap", "argb32", "nv12", "mean and scale", "bilinear", "camera"])
def test_htp_takes_it_and_computes_the_same(network, vendor_check, tmp_path, case):
    model = network("image_classifier32")
    ((port, held),) = model.feeds.items()
    given = {option: {port: value} for option, value in options_of(case, *held.shape[2:])}
    converted = xdlc.convert(model.path, input_dims={port: held.shape}, **given)
    converted.save(tmp_path / "m.dlc")
    assert vendor_check("read", tmp_path / "m.dlc")["ok"]
    answer = vendor_check("compile", tmp_path / "m.dlc", "--soc", "SM8550", "--out", tmp_path / "m.bin")
    assert answer["ok"], answer["reason"]
    tensor = converted.main.inputs[0]
    feeds = {port: np.random.default_rng(3).integers(0, 256, tensor.shape).astype(tensor.dtype.numpy)}
    ((_, expected),) = xdlc.run(converted, feeds).items()
    ((_, found),) = xdlc.run(converted, feeds, runtime="htp", soc="sm8550").items()
    assert relative_error(found, expected) <= 0.01
    np.savez(tmp_path / "in.npz", **feeds)
    files = ("--inputs", tmp_path / "in.npz", "--out", tmp_path / "out.npz")
    assert vendor_check("run", tmp_path / "m.dlc", "--soc", "SM8550", *files)["ok"]
    with np.load(tmp_path / "out.npz") as outputs:
        assert relative_error(outputs[outputs.files[0]], expected) <= 0.01
