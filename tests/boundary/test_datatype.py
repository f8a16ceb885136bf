from typing import Any

import numpy as np
import pytest

from tests.support.htp_models import add, cnn, needs_htp
from tests.support.running import run_htp
from xdlc.errors import ConstraintError, ProblemList, UsageError
from xdlc.ir import Graph, Model, ScaleOffset, Tensor, u32
from xdlc.ir import dtype as dt
from xdlc.ir.fingerprint import fingerprint
from xdlc.prepare.edit import edit
from xdlc.runtime.cpu import CpuSession

FEEDS = {"x": np.random.default_rng(1).uniform(-1, 1, (1, 8, 8, 4)).astype("float32")}


def forms(model: Model) -> dict[str, tuple[str, Any]]:
    model.main.verify()
    ports = (*model.main.inputs, *model.main.outputs)
    return {port.name: (port.dtype.name, port.encoding) for port in ports}


def types(model: Model) -> list[str]:
    return [op.type for op in model.main.ops]


def neurons(*dtypes: dt.DType, encoding: ScaleOffset | None = None) -> Model:
    """Return a chain of Relu whose values are of the types given."""
    graph = Graph("g")
    tensor = graph.add_input(Tensor("t0", (1, 4), dtypes[0], encoding if dtypes[0].is_fixed else None))
    for number, (kind, before) in enumerate(zip(dtypes[1:], dtypes, strict=False), 1):
        result = Tensor(f"t{number}", (1, 4), kind, encoding if kind.is_fixed else None)
        name = {(True, False): "Dequantize", (False, True): "Quantize"}.get((before.is_fixed, kind.is_fixed))
        tensor = (
            add(graph, name, [tensor], result)
            if name
            else add(graph, "ElementWiseNeuron", [tensor], result, operation=u32(4))
        )
    graph.add_output(tensor)
    return Model({"g": graph})


def test_float_io_converts_inside_and_computes_the_same() -> None:
    model = cnn(quantized=True)
    edited = edit(model, use_float_io=True)
    assert forms(edited) == {"x": ("float32", None), "y": ("float32", None)}
    assert types(edited) == ["Quantize", *types(model), "Dequantize"]
    first = edited.main.ops[0]
    assert first.outputs[0].encoding == model.main.inputs[0].encoding
    assert first.origin.reason == "use_float_io: 'x' is float32 in your application, ufixed8 in the graph"
    np.testing.assert_array_equal(CpuSession(edited).run(FEEDS)["y"], CpuSession(model).run(FEEDS)["y"])


def test_float_io_and_back_is_the_same_network() -> None:
    model = cnn(quantized=True)
    again = edit(edit(model, use_float_io=True), buffer_data_type={"x": "fixedPoint8", "y": "fixedPoint8"})
    assert types(again) == types(model)
    assert forms(again) == forms(model)
    assert fingerprint(again.main) == fingerprint(model.main)


def test_float_io_widens_other_floats_and_leaves_integers() -> None:
    edited = edit(neurons(dt.FLOAT16, dt.FLOAT16), use_float_io=True)
    assert types(edited) == ["Cast", "ElementWiseNeuron", "Cast"]
    assert [port[0] for port in forms(edited).values()] == ["float32", "float32"]
    with pytest.warns(UserWarning, match="use_float_io has no effect"):
        assert types(edit(neurons(dt.INT32, dt.INT32), use_float_io=True)) == ["ElementWiseNeuron"]


def test_an_output_that_ops_read_too_is_converted_for_the_caller_only() -> None:
    model = edit(cnn(quantized=True), set_output_tensors=["relu", "y"])
    edited = edit(model, use_float_io=True)
    relu = edited.main.tensors["relu"]
    assert relu.dtype is dt.FLOAT32
    assert not edited.main.consumers(relu)
    found, wanted = CpuSession(edited).run(FEEDS), CpuSession(model).run(FEEDS)
    for name in ("relu", "y"):
        np.testing.assert_array_equal(found[name], wanted[name])


def test_types_of_single_ports() -> None:
    model = cnn(quantized=True)
    edited = edit(model, buffer_data_type=["x=fixedPoint16,y=float32"])
    assert types(edited) == ["Convert", *types(model), "Dequantize"]
    scale = model.main.inputs[0].encoding.scale
    kind, encoding = forms(edited)["x"]
    assert (kind, encoding) == ("ufixed16", ScaleOffset(scale / 257, -128 * 257))
    np.testing.assert_array_equal(CpuSession(edited).run(FEEDS)["y"], CpuSession(model).run(FEEDS)["y"])
    both = edit(model, use_float_io=True, buffer_data_type="y=fixedPoint16")
    assert [port[0] for port in forms(both).values()] == ["float32", "ufixed16"]


def test_signed_and_wide_ranges_are_kept() -> None:
    model = neurons(dt.SFIXED16, dt.SFIXED16, encoding=ScaleOffset(2.0**-12))
    with pytest.warns(UserWarning, match="'t1' is already fixedPoint16"):
        edited = edit(model, buffer_data_type={"t0": "fixedPoint8", "t1": "fixedPoint16"})
    kind, encoding = forms(edited)["t0"]
    assert kind == "ufixed8"
    assert encoding.offset == -128
    assert encoding.scale * 255 == pytest.approx(65535 * 2.0**-12)


def test_a_float_port_takes_the_range_of_the_conversion_beside_it() -> None:
    encoding = ScaleOffset(0.5, -10)
    model = neurons(dt.FLOAT32, dt.UFIXED8, dt.UFIXED8, dt.FLOAT32, encoding=encoding)
    edited = edit(model, buffer_data_type="t0=fixedPoint8,t3=fixedPoint16")
    assert types(edited) == ["ElementWiseNeuron", "Dequantize", "Quantize"]
    assert forms(edited) == {"t0": ("ufixed8", encoding), "t3": ("ufixed16", ScaleOffset(0.5 / 257, -2570))}


def test_ops_of_users_are_no_conversions_whatever_their_names() -> None:
    model = neurons(dt.FLOAT32, dt.UFIXED8, dt.UFIXED8, dt.FLOAT32, encoding=ScaleOffset(0.5, -10))
    for op in model.main.ops:
        op.package = "Pkg"
    with pytest.raises(ConstraintError, match="the model does not state the range"):
        edit(model, buffer_data_type="t0=fixedPoint8")
    with pytest.raises(ConstraintError, match="the model does not state the range"):
        edit(model, buffer_data_type="t3=fixedPoint8")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"t0": "fixedPoint8"}, "'t0' is float32, but the model does not state the range of its values"),
        ({"t1": "fixedPoint16"}, "'t1' is float32, but the model does not state the range of its values"),
        ("t0:float32", "not of the form name=type"),
        ("t0=float32,t0=fixedPoint8", "two types for 't0'"),
        ({"t0": "fixedPoint"}, "unknown type 'fixedPoint'"),
        ({"t2": "float32"}, "'t2', not an input or output\n  fix: inputs and outputs: t0, t1"),
    ],
)
def test_wrong_types_are_refused(given: Any, said: str) -> None:
    with pytest.raises((UsageError, ConstraintError)) as caught:
        edit(neurons(dt.FLOAT32, dt.FLOAT32), buffer_data_type=given)
    assert said in str(caught.value)


def test_all_wrong_types_are_reported_at_once() -> None:
    with pytest.raises(ProblemList) as caught:
        edit(neurons(dt.INT32, dt.INT32), buffer_data_type="t0=float32,t1=fixedPoint8")
    assert [problem.problem[:15] for problem in caught.value.problems] == [
        "'t0' holds int3",
        "'t1' holds int3",
    ]


def test_an_encoding_without_a_range_is_refused() -> None:
    model = neurons(dt.UFIXED8, dt.UFIXED8, encoding=ScaleOffset(0.0))
    with pytest.raises(ConstraintError, match="the range of the tensor is empty"):
        edit(model, buffer_data_type="t0=fixedPoint16")


@needs_htp
@pytest.mark.parametrize(
    "options", [{"use_float_io": True}, {"buffer_data_type": "x=fixedPoint16,y=fixedPoint16"}]
)
def test_htp_computes_the_same_behind_other_ports(options: dict[str, Any]) -> None:
    model = cnn(quantized=True)
    x = model.main.inputs[0].encoding
    stored = np.random.default_rng(1).integers(0, 256, (1, 8, 8, 4))
    feeds = {"x": ((stored + x.offset) * x.scale).astype("float32")}  # HTP's Quantize rounds ties its own way
    found = run_htp(edit(model, **options), feeds)["y"]
    step = model.main.outputs[0].encoding.scale
    np.testing.assert_allclose(found, run_htp(model, feeds)["y"], rtol=0, atol=step / 100)
