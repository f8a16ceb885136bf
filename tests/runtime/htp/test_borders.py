"""Inputs and outputs that HTP has in another form: the caller's is the model's."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.commands import invoke
from tests.support.htp_models import needs_htp, validate
from tests.support.running import run, run_htp
from xdlc.cli.tools.net_run import main as net_run
from xdlc.ir import Graph, Model, ScaleOffset, Tensor, b8, make_op, static, u32
from xdlc.ir import dtype as dt
from xdlc.prepare.htp import prepare
from xdlc.runtime.htp import library, support
from xdlc.targets import find_soc

PLAIN = {dt.SFIXED8: dt.INT8, dt.UFIXED8: dt.UINT8, dt.UFIXED16: dt.UINT16}
X = np.arange(-4, 4).reshape(2, 4)
JUDGES = [pytest.param("vendor", marks=needs_htp), "tables"]


@pytest.fixture(params=JUDGES)
def judged(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    if request.param == "tables":
        monkeypatch.setattr(library, "find_spec", lambda name: None)
    return lambda model: support.judge(model, find_soc("sm8650"))


def quantized(dtype: dt.DType) -> Model:
    """Return Relu on fixed point between inputs and outputs of plain integers."""
    graph = Graph("quantized")
    encoding = ScaleOffset(0.25, 0 if dtype.is_signed else -128)
    shape = X.shape
    x = graph.add_input(Tensor("x", shape, PLAIN[dtype]))
    stored, clipped = (Tensor(name, shape, dtype, encoding) for name in ("stored", "clipped"))
    y = Tensor("y", shape, PLAIN[dtype])
    graph.append(make_op(graph, "Reinterpret", [x], [stored], name="in", package="xdlc"))
    graph.append(make_op(graph, "ElementWiseNeuron", [stored], [clipped], {"operation": u32(4)}, name="relu"))
    graph.append(make_op(graph, "Reinterpret", [clipped], [y], name="out", package="xdlc"))
    graph.add_output(y)
    return Model({"quantized": graph})


def scalars() -> Model:
    """Return the mean of x[2,4] * s + k; k is a 64-bit integer and an output too."""
    graph = Graph("scalars")
    x = graph.add_input(Tensor("x", X.shape, dt.FLOAT32))
    s, k = (graph.add_input(Tensor(*of)) for of in (("s", (), dt.FLOAT32), ("k", (), dt.INT64)))
    y, n = Tensor("y", (), dt.FLOAT32), Tensor("n", (), dt.INT64)

    def add(kind: str, inputs: list[Tensor], out: Tensor, **params: Any) -> Tensor:
        graph.append(make_op(graph, kind, inputs, [out], params, name=f"{kind}_{out.name}"))
        return out

    step = add("Reshape", [s], Tensor("step", (1, 1), dt.FLOAT32))
    start = add("Cast", [add("Reshape", [k], Tensor("k1", (1,), dt.INT64))], Tensor("k2", (1,), dt.FLOAT32))
    scaled = add("ElementWiseBinary", [x, step], Tensor("scaled", X.shape, dt.FLOAT32), operation=u32(13))
    moved = add("ElementWiseBinary", [scaled, start], Tensor("moved", X.shape, dt.FLOAT32), operation=u32(0))
    axes = static("axes", np.array([0, 1], np.uint32))
    mean = add("ReduceMean", [moved], Tensor("mean", (1, 1), dt.FLOAT32), axes=axes, keep_dims=b8(True))
    add("Reshape", [mean], y)
    doubled = add(
        "ElementWiseBinary",
        [graph.tensors["k1"], graph.tensors["k1"]],
        Tensor("doubled", (1,), dt.INT64),
        operation=u32(0),
    )
    add("Reshape", [doubled], n)
    graph.add_output(y)
    graph.add_output(n)
    return Model({"scalars": graph})


def feeds_of(model: Model) -> dict[str, Any]:
    if model.main.name == "scalars":
        return {"x": X.astype(np.float32), "s": np.float32(0.5), "k": np.int64(3)}
    wanted = model.main.inputs[0].dtype.numpy
    return {"x": (X if wanted.kind == "i" else X + 128).astype(wanted)}


MODELS = [scalars, *(lambda dtype=dtype: quantized(dtype) for dtype in PLAIN)]
NAMES = ["scalars", *map(str, PLAIN)]


@needs_htp
@pytest.mark.parametrize("make", MODELS, ids=NAMES)
def test_results_are_as_the_model_has_them(make: Any) -> None:
    model = make()
    feeds = feeds_of(model)
    found, wanted = run_htp(model, feeds), run(model, feeds)
    for name, array in wanted.items():
        assert (found[name].shape, found[name].dtype) == (array.shape, array.dtype)
        np.testing.assert_allclose(found[name], array, rtol=2e-3)
    validate(model)


@pytest.mark.parametrize("make", MODELS, ids=NAMES)
def test_judges_take_them(judged: Any, make: Any) -> None:
    model = make()
    verdict = judged(model)
    assert not verdict.plain
    assert not verdict.refused
    assert model.main.inputs[-1].shape == make().main.inputs[-1].shape  # the model is as it was


@needs_htp
@pytest.mark.parametrize("make", MODELS[:2], ids=NAMES[:2])
def test_caches_hold_what_htp_has_and_the_model_stays(make: Any) -> None:
    prepared = prepare(make(), ["sm8650"])
    (described,) = prepared.metadata["cacheList"][0]["graphs"]
    ios = {io["name"]: io for io in (*described["graphInputs"], *described["graphOutputs"])}
    names = [tensor.name for tensor in (*prepared.main.inputs, *prepared.main.outputs)]
    assert list(ios) == names
    if make is scalars:
        assert [ios[name]["dimensions"] for name in "skyn"] == [[1]] * 4
        assert [tensor.shape for tensor in prepared.main.outputs] == [(), ()]
    else:
        assert {ios[name]["dataType"] for name in "xy"} == {"QNN_DATATYPE_SFIXED_POINT_8"}
        assert {tensor.dtype for tensor in (*prepared.main.inputs, *prepared.main.outputs)} == {dt.INT8}
    again = prepare(prepared, ["sm8650"])  # the cache is seen to be one of this model
    assert again.records.keys() == prepared.records.keys()


@needs_htp
def test_net_run_takes_and_gives_the_models_own_types(tmp_path: Path) -> None:
    model = quantized(dt.UFIXED8)
    model.save(tmp_path / "m.dlc")
    array = feeds_of(model)["x"]
    array.tofile(tmp_path / "x.raw")
    (tmp_path / "list.txt").write_text(f"x:={tmp_path / 'x.raw'}\n")
    results = {}
    for runtime in ("cpu", "htp"):
        folder = tmp_path / runtime
        command = ["--container", tmp_path / "m.dlc", "--input_list", tmp_path / "list.txt"]
        command += ["--runtime", runtime, "--output_dir", folder]
        command += ["--use_native_input_files", "--use_native_output_files"]
        invoke(net_run, *command)
        results[runtime] = np.fromfile(folder / "Result_0" / "y_native.raw", np.uint8)
    np.testing.assert_array_equal(results["htp"], results["cpu"])
    np.testing.assert_array_equal(results["cpu"], np.maximum(array, 128).reshape(-1))
