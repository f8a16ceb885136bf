"""Images of callers against numpy: colours, sizes, mean and scale."""

import numpy as np
import pytest

import xdlc
from tests.support.image_steps import preprocessed
from tests.support.onnx_models import build, node
from xdlc.errors import ConstraintError, ProblemList, UsageError, each_problem
from xdlc.ir.fingerprint import fingerprint

SIZE = (16, 16)
MEAN, SCALE = (123.675, 116.28, 103.53), (0.0171, 0.0175, 0.0174)
CASES = {
    "swap": ((1, 16, 16, 3), {"input_encoding": "rgb bgr"}),
    "default target": ((1, 16, 16, 3), {"input_encoding": "rgb"}),
    "rgba": ((1, 16, 16, 4), {"input_encoding": ("rgba", "rgb")}),
    "argb32": ((1, 16, 16, 4), {"input_encoding": ("argb32", "rgb")}),
    "nv12": ((1, 24, 16), {"input_encoding": "nv12 rgb"}),
    "nv21": ((1, 24, 16), {"input_encoding": ("nv21", "bgr")}),
    "mean": ((1, 16, 16, 3), {"input_mean": MEAN}),
    "one mean": ((1, 16, 16, 3), {"input_mean": 127.5, "input_scale": "0.0078"}),
    "mean and scale": ((1, 16, 16, 3), {"input_mean": MEAN, "input_scale": SCALE}),
    "bilinear": ((1, 20, 30, 3), {"input_resize": "20,30"}),
    "nearest": ((1, 40, 10, 3), {"input_resize": (40, 10, "nearest")}),
    "centre": ((1, 20, 31, 3), {"input_crop": (20, 31)}),
    "part": ((1, 20, 31, 3), {"input_crop": (0, 5, 20, 31)}),
    "camera": (
        (1, 60, 64),
        {
            "input_encoding": "nv12 bgr",
            "input_crop": (40, 64),
            "input_resize": "40,40",
            "input_mean": MEAN,
            "input_scale": SCALE,
        },
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_matches_numpy(models, case):
    shape, options = CASES[case]
    path = models.save(models.cnn())
    given = {name: {"x": value} for name, value in options.items()}
    model = xdlc.convert(path, desired_input_layout={} if len(shape) == 3 else {"x": "NHWC"}, **given)
    assert model.main.inputs[0].shape == shape
    fed = np.random.default_rng(0).integers(0, 256, shape)
    fed = fed.astype(model.main.inputs[0].dtype.numpy)
    sized = preprocessed(fed, SIZE, **{name[6:]: value for name, value in options.items()})
    expected = xdlc.run(xdlc.convert(path), {"x": sized.transpose(0, 3, 1, 2)})["y"]
    np.testing.assert_allclose(xdlc.run(model, {"x": fed})["y"], expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("options", "error", "count"),
    [
        ({"input_encoding": "nv13 rgb"}, UsageError, 1),
        ({"input_encoding": "rgb nv12"}, UsageError, 1),
        ({"input_encoding": "other rgb"}, UsageError, 1),
        ({"input_encoding": ""}, UsageError, 1),
        ({"input_encoding": None}, UsageError, 1),
        ({"input_encoding": "bgr bgr rgb"}, UsageError, 1),
        ({"input_mean": "1,x", "input_scale": "nan", "input_resize": "5"}, UsageError, 3),
        ({"input_resize": "5,5,cubic", "input_crop": "-1,2,3,4"}, UsageError, 2),
        ({"input_resize": (1 << 40, 3)}, UsageError, 1),
        ({"input_mean": (1, 2)}, ConstraintError, 1),
        ({"input_crop": "15,16"}, ConstraintError, 1),
        ({"input_crop": "1,0,16,16"}, ConstraintError, 1),
        ({"input_encoding": "nv12", "input_crop": "17,16"}, ConstraintError, 1),
        ({"input_encoding": "nv12", "desired_input_layout": "NHWC"}, ConstraintError, 1),
        ({"input_mean": MEAN, "input_layout": "NONTRIVIAL"}, ConstraintError, 1),
    ],
)
def test_requests_that_fit_no_image(models, options, error, count):
    with pytest.raises(ProblemList if count > 1 else error) as raised:
        xdlc.convert(models.save(models.cnn()), **{name: {"x": value} for name, value in options.items()})
    assert len(each_problem(raised.value)) == count


def test_series_and_equal_colours_change_nothing(models):
    path = models.save(models.cnn())
    for words in ("time_series", "other", "bgr", "rgb rgb"):
        made = xdlc.convert(path, input_encoding={"x": words})
        assert [op.type for op in made.main.ops] == [op.type for op in xdlc.convert(path).main.ops]


def test_preprocess_on_models_that_are_made(models, tmp_path):
    rng = np.random.default_rng(5)
    plain = xdlc.convert(models.save(models.cnn()))
    plain.save(tmp_path / "m.dlc")
    fed = rng.integers(0, 256, (1, 30, 20)).astype("u1")
    steps = {"encoding": "nv12 rgb", "resize": (20, 20, "nearest"), "mean": (120, 110, 100), "scale": 0.02}
    image = preprocessed(fed, SIZE, **steps).transpose(0, 3, 1, 2)
    samples = [{"x": rng.uniform(-2.5, 2.9, (1, 3, 16, 16)).astype("f4")} for _ in range(4)]
    quantized = xdlc.quantize(plain, samples)
    for model, source in ((plain, tmp_path / "m.dlc"), (quantized, quantized)):
        fitted = xdlc.preprocess(source, "x", **steps)
        assert (fitted.main.inputs[0].dtype.name, fitted.main.inputs[0].shape) == ("uint8", (1, 30, 20))
        fitted.save(tmp_path / "made.dlc")
        again = xdlc.load(tmp_path / "made.dlc")
        again.main.verify()
        assert again.metadata["preprocessing"] == fitted.metadata["preprocessing"]
        assert fingerprint(again.main) == fingerprint(fitted.main)  # caches are found again
        expected, found = xdlc.run(model, {"x": image})["y"], xdlc.run(again, {"x": fed})["y"]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 if model is plain else 0.02)


@pytest.mark.parametrize("options", [{"input_encoding": "rgb bgr"}, {"input_mean": (1, 2, 3)}])
def test_layouts_that_nothing_states_are_assumed(models, options):
    x, notices = np.random.default_rng(8).random((1, 3, 4, 6), np.float32), []
    path = models.save(build([node("ReduceMax", "x", "y", keepdims=0)], {"x": x}, {}, ["y"], 17))
    given = {name: {"x": value} for name, value in options.items()}
    made = xdlc.convert(path, notify=notices.append, **given)
    assert made.metadata["layouts"]["x"] == "NCHW"
    assert len(notices) == 1


def test_graphs_of_integers_batches_and_dynamic_sizes(models):
    rng = np.random.default_rng(6)
    fed = rng.integers(0, 256, (2, 12, 8)).astype("u1")
    image = preprocessed(fed, (8, 8), "nv21 rgb").transpose(0, 3, 1, 2)
    weights = {"w": rng.standard_normal((4, 3, 3, 3)).astype("f4")}
    whole = [node("Cast", "x", "f", to=1), node("Conv", "f w", "y")]
    for nodes, held in ((whole, np.rint(image).astype("u1")), ([node("Conv", "x w", "y")], image)):
        path = models.save(build(nodes, {"x": held}, weights, ["y"], 17))
        converted = xdlc.convert(path, input_encoding={"x": "nv21 rgb"})
        expected = xdlc.run(xdlc.convert(path), {"x": held})["y"]
        np.testing.assert_allclose(xdlc.run(converted, {"x": fed})["y"], expected, rtol=1e-5, atol=1e-3)
    model = build(nodes, {"x": image}, weights, ["y"], 17)
    for axis, name in enumerate("NCHW"):
        if name != "C":
            model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    path, steps = models.save(model), {"input_mean": {"x": (1, 2, 3)}, "input_encoding": {"x": "rgb bgr"}}
    converted = xdlc.convert(path, input_layout={"x": "NCHW"}, **steps)
    wanted = image[:, ::-1] - np.float32([1, 2, 3]).reshape(3, 1, 1)
    expected = xdlc.run(xdlc.convert(path), {"x": wanted})["y"]
    np.testing.assert_allclose(xdlc.run(converted, {"x": image})["y"], expected, rtol=1e-5, atol=1e-3)
    with pytest.raises(ConstraintError):
        xdlc.convert(path, input_layout={"x": "NCHW"}, input_crop={"x": "20,20"})


def test_bytes_of_quantized_graphs_stay_bytes(models):
    rng = np.random.default_rng(9)
    samples = [{"x": rng.random((1, 3, 16, 16), np.float32)} for _ in range(4)]
    quantized = xdlc.quantize(xdlc.convert(models.save(models.cnn())), samples)
    model = xdlc.preprocess(quantized, "x", encoding=("rgba", "bgr"), crop=(20, 18), resize="17,17 nearest")
    assert model.main.inputs[0].encoding == quantized.main.inputs[0].encoding
    assert "Quantize" not in [op.type for op in model.main.ops]
    fed = rng.random((1, 4, 20, 18), np.float32)
    image = preprocessed(
        fed.transpose(0, 2, 3, 1), SIZE, "rgba bgr", crop=(20, 18), resize=(17, 17, "nearest")
    ).transpose(0, 3, 1, 2)
    np.testing.assert_array_equal(xdlc.run(model, {"x": fed})["y"], xdlc.run(quantized, {"x": image})["y"])


@pytest.mark.parametrize(
    ("options", "holders"), [({"input_encoding": ("nv12", "bgr")}, 1), ({"input_scale": 0.02}, 0)]
)
def test_encodings_of_the_source_are_those_of_the_network(options, holders):
    weight = {"w": np.ones((2, 3, 1, 1), "f4")}
    nodes, feeds = [node("Conv", "image w", "y")], {"image": np.ones((1, 3, 4, 4), "f4")}
    source = build(nodes, feeds, weight, ["y"], 13)
    encodings = {
        "activation_encodings": {"image": [{"bitwidth": 8, "min": -2.0, "max": 2.0}]},
        "param_encodings": {},
    }
    notices, requests = [], {key: {"image": value} for key, value in options.items()}
    after = xdlc.annotate(
        xdlc.convert(source, **requests), quantization_overrides=encodings, notify=notices.append
    )
    before = xdlc.annotate(xdlc.convert(source), quantization_overrides=encodings)
    edited = xdlc.preprocess(
        before, "image", **{key.removeprefix("input_"): value for key, value in options.items()}
    )
    for model, count in ((after, holders), (edited, 1)):
        assert model.main.inputs[0].encoding is None
        assert sum(tensor.encoding is not None for tensor in model.main.tensors.values()) == count
    assert len(notices) == 1 - holders
