"""What kernels are told of an op: names, types and layouts of the definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.compilers import needs_cc
from xdlc.container import udo
from xdlc.errors import BackendError
from xdlc.ir import AxisScaleOffset, Graph, Model, ScaleOffset, Tensor, b8, f32, make_op, static, u32
from xdlc.ir.data import ArrayData
from xdlc.ir.dtype import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    SFIXED4,
    SFIXED8,
    STRING,
    UFIXED8,
    UFIXED16,
    UINT8,
    UINT32,
    DType,
)
from xdlc.opdefs.model import OpDef
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.source_match import Kernel
from xdlc.opdefs.xml_reader import parse_collection
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.udo import Kernels
from xdlc.runtime.udo import kernels as kernels_module
from xdlc.runtime.udo.build_descriptor import arguments_of, form_of, form_of_view
from xdlc.runtime.udo.descriptor import OpForm, element, static_array

XML = """\
<OpDefCollection PackageName="Math" Domain="xdlc" Version="1.0">
  <OpDefList>
    <OpDef>
      <Name>Sum</Name>
      <Description><Content>adds up</Content></Description>
      <Reference Source="test" Url="none"/>
      <Input><Name>a</Name><Mandatory>true</Mandatory><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
        <Shape><Rank>4D</Rank><Layout>NHWC</Layout></Shape></Input>
      <Input><Name>weight</Name><Mandatory>true</Mandatory><Datatype>QNN_DATATYPE_UFIXED_POINT_8</Datatype>
        <Shape><Rank>ND</Rank></Shape><IsStaticTensor>true</IsStaticTensor></Input>
      <Input><Name>more</Name><Mandatory>false</Mandatory><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
        <Shape><Rank>ND</Rank></Shape><Repeated>true</Repeated></Input>
      <Output><Name>y</Name><Mandatory>true</Mandatory><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
        <Shape><Rank>ND</Rank></Shape></Output>
      <Parameter><Name>mode</Name><Mandatory>false</Mandatory><Datatype>QNN_DATATYPE_UINT_32</Datatype>
        <Shape><Rank>SCALAR</Rank></Shape><Default>SUM</Default>
        <Enumeration><Enum>SUM</Enum><Enum>MEAN</Enum></Enumeration></Parameter>
      <SupportedBackend>CPU</SupportedBackend>
    </OpDef>
  </OpDefList>
</OpDefCollection>
"""


@pytest.fixture(scope="module")
def definition() -> OpDef:
    return parse_collection(XML.encode(), "test.xml").opdefs[0]


def graph_of(weight: Tensor) -> Graph:
    graph = Graph("graph")
    a, c = (graph.add_input(Tensor(name, (1, 1, 2, 2), FLOAT32)) for name in "ac")
    y = Tensor("y", (1, 1, 2, 2), FLOAT32)
    graph.append(
        make_op(graph, "Sum", [a, weight, None, c], [y], {"mode": u32(1)}, package="Math", name="op")
    )
    graph.add_output(y)
    return graph


def stored_weight() -> Tensor:
    return static("w", np.uint8([[[[0, 1], [2, 3]]]]), UFIXED8, ScaleOffset(0.5, -2))


def form(graph: Graph, definition: OpDef | None) -> OpForm:
    (op,) = graph.ops
    return form_of(op, definition)[0]


def test_places_have_the_names_and_layouts_of_the_definition(definition: OpDef) -> None:
    described = form(graph_of(stored_weight()), definition)
    assert [tensor.name for tensor in described.inputs] == ["a", "weight", "more", "more"]
    assert [tensor.omitted for tensor in described.inputs] == [False, False, True, False]
    assert [tensor.layout for tensor in described.inputs] == ["NHWC", "", "", ""]
    assert [tensor.name for tensor in described.outputs] == ["y"]
    (mode,) = described.params
    assert (mode.dtype, mode.value, mode.enumerator) == (UINT32.code, 1, "MEAN")
    assert OpForm.of(described.words()) == described


def test_what_the_end_of_an_op_leaves_out_is_there_with_defaults() -> None:
    text = XML.replace("<Repeated>true</Repeated>", "")
    definition = parse_collection(text.encode(), "test.xml").opdefs[0]
    graph = Graph("graph")
    a = graph.add_input(Tensor("a", (1, 1, 2, 2), FLOAT32))
    y = Tensor("y", (1, 1, 2, 2), FLOAT32)
    graph.append(make_op(graph, "Sum", [a, stored_weight()], [y], package="Math", name="op"))
    described = form(graph, definition)
    assert [(tensor.name, tensor.omitted) for tensor in described.inputs] == [
        ("a", False),
        ("weight", False),
        ("more", True),
    ]
    (mode,) = described.params
    assert (mode.dtype, mode.value, mode.enumerator) == (UINT32.code, 0, "SUM")


def test_without_a_definition_they_are_numbered() -> None:
    found = form(graph_of(stored_weight()), None)
    assert [tensor.name for tensor in found.inputs] == ["in[0]", "in[1]", "in[2]", "in[3]"]
    assert found.params[0].enumerator is None


def weight_as(weight: Tensor, definition: OpDef | None) -> tuple[str, np.ndarray, float, int]:
    (op,) = graph_of(weight).ops
    found, data = form_of(op, definition)
    held = found.inputs[1]
    array = np.array(static_array(held, data.memory()))
    return str(element(held.dtype)), array.reshape(-1), held.scale, held.offset


def test_static_integers_stay_if_the_definition_has_their_type(definition: OpDef) -> None:
    kind, array, scale, offset = weight_as(stored_weight(), definition)
    assert (kind, array.tolist(), scale, offset) == ("uint8", [0, 1, 2, 3], 0.5, -2)


@pytest.mark.parametrize(
    ("word", "kind", "array", "scale", "offset"),
    [
        ("UFIXED_POINT_8", "uint8", [0, 102, 204, 255], 2.5 / 255, -102),
        ("SFIXED_POINT_8", "int8", [-85, 0, 85, 127], 1.5 / 127, 0),
        ("UFIXED_POINT_4", "uint8", [0, 6, 12, 15], 2.5 / 15, -6),
        ("SFIXED_POINT_4", "int8", [-5, 0, 5, 7], 1.5 / 7, 0),
        ("UINT_8", "uint8", [0, 102, 204, 255], 2.5 / 255, -102),
        ("FLOAT_32", "float32", [-1, 0, 1, 1.5], 0, 0),
    ],
)
def test_reals_come_as_integers_where_a_definition_has_nothing_else(
    word: str, kind: str, array: list[float], scale: float, offset: int
) -> None:
    definition = with_weights_of(word)
    weight = static("w", np.float32([[[[-1, 0], [1, 1.5]]]]))
    found = weight_as(weight, definition)
    assert (found[0], found[1].tolist(), found[3]) == (kind, array, offset)
    assert found[2] == pytest.approx(scale)
    (op,) = graph_of(weight).ops
    to_python = form_of(op, definition, reals=True)[0].inputs[1]
    assert to_python.dtype == FLOAT32.code


def with_weights_of(word: str) -> OpDef:
    text = XML.replace("QNN_DATATYPE_UFIXED_POINT_8", f"QNN_DATATYPE_{word}")
    return parse_collection(text.encode(), "test.xml").opdefs[0]


def test_static_integers_are_reals_or_those_of_the_definition_otherwise(definition: OpDef) -> None:
    by_axis = AxisScaleOffset(axis=3, scales=(1.0, 2.0), offsets=(0, 0))
    of_channels = static("w", np.uint8([[[[0, 1], [2, 3]]]]), UFIXED8, by_axis)
    signed = static("w", np.int8([[[[0, 1], [2, -3]]]]), SFIXED8, ScaleOffset(0.5, 0))
    floats = with_weights_of("FLOAT_32")
    assert weight_as(of_channels, floats)[1].tolist() == [0, 2, 2, 6]
    assert weight_as(signed, floats)[1].tolist() == [0, 0.5, 1, -1.5]
    kind, array, scale, offset = weight_as(of_channels, definition)
    assert (kind, array.tolist(), scale, offset) == ("uint8", [0, 85, 85, 255], pytest.approx(6 / 255), 0)
    kind, array, scale, _ = weight_as(stored_weight(), None)
    assert (kind, array.tolist(), scale) == ("float32", [-1, -0.5, 0, 0.5], 0)


def test_static_floats_get_the_type_of_the_definition(definition: OpDef) -> None:
    double = static("w", np.float64([[[[1, 2], [3, 4]]]]))
    assert weight_as(double, with_weights_of("FLOAT_32"))[0] == "float32"
    assert weight_as(double, definition)[0] == "uint8"
    assert weight_as(double, None)[0] == "float64"
    assert weight_as(static("w", np.int32([[[[1, 2], [3, 4]]]])), definition)[0] == "int32"


def test_four_bits_take_a_byte_each() -> None:
    packed = static("w", np.uint8([0x21, 0xF3]), SFIXED4, ScaleOffset(1.0, 0))
    graph = Graph("graph")
    x = graph.add_input(Tensor("x", (4,), FLOAT32))
    weight = Tensor("w", (4,), SFIXED4, packed.encoding, packed.data, packed.role)
    graph.append(make_op(graph, "Any", [x, weight], [Tensor("y", (4,), FLOAT32)], package="Math"))
    (op,) = graph.ops
    found, data = form_of(op, None)
    assert static_array(found.inputs[1], data.memory()).tolist() == [1, 2, 3, -1]
    assert element(SFIXED4.code) == np.int8


@pytest.mark.parametrize(
    ("dtype", "kernel"),
    [
        (FLOAT16, FLOAT32),
        (BFLOAT16, FLOAT32),
        (UFIXED8, FLOAT32),
        (UFIXED16, FLOAT32),
        (FLOAT64, FLOAT64),
        (INT32, INT32),
        (INT64, INT64),
        (UINT8, UINT8),
    ],
)
def test_activations(dtype: object, kernel: object) -> None:
    graph = Graph("graph")
    x = graph.add_input(Tensor("x", (2,), dtype, dynamic_axes=(0,)))
    graph.append(make_op(graph, "Any", [x], [Tensor("y", (2,), dtype)], package="Math"))
    found = form(graph, None)
    assert found.inputs[0].dtype == found.outputs[0].dtype == kernel.code
    assert found.inputs[0].dims == (None,)


def test_too_many_axes() -> None:
    graph = Graph("graph")
    x = graph.add_input(Tensor("x", (1,) * 17, FLOAT32))
    graph.append(make_op(graph, "Any", [x], [Tensor("y", (1,), FLOAT32)], package="Math", name="op"))
    with pytest.raises(BackendError, match="has 17 axes, but kernels support at most 16"):
        form(graph, None)


def test_texts_are_no_elements() -> None:
    graph = Graph("graph")
    x = graph.add_input(Tensor("x", (1,), STRING))
    graph.append(make_op(graph, "Any", [x], [Tensor("y", (1,), FLOAT32)], package="Math", name="op"))
    with pytest.raises(BackendError, match="'x' is string, but kernels support numbers only"):
        form(graph, None)


def test_views_of_converters(definition: OpDef) -> None:
    view = OpView(
        "Math",
        "Sum",
        "op",
        (
            TensorSpec((1, None), FLOAT32),
            TensorSpec((2,), UINT8, data=static("", np.uint8([1, 2])).data),
            None,
        ),
        (None,),
        {
            "mode": "MEAN",
            "text": "MEAN",
            "flag": True,
            "big": 1 << 40,
            "real": 0.5,
            "list": [1, 2],
            "array": np.eye(2),
        },
    )
    described, data = form_of_view(view, definition)
    assert [tensor.dims for tensor in described.inputs] == [(1, None), (2,), ()]
    assert [tensor.omitted for tensor in described.inputs] == [False, False, True]
    assert described.outputs[0].dtype == 0
    params = {param.name: param for param in described.params}
    assert (params["mode"].value, params["mode"].enumerator) == (1, "MEAN")
    assert (params["text"].value, params["text"].enumerator) == ("MEAN", None)
    assert params["big"].dtype == INT64.code
    values = described.view(data.memory()).params
    assert values["mode"] == "MEAN"
    assert (values["flag"], values["real"], values["list"].tolist()) == (True, 0.5, [1, 2])
    np.testing.assert_array_equal(values["array"], np.eye(2, dtype=np.float32))


@pytest.mark.parametrize(("dtype", "stored"), [(SFIXED8, [-2, 3]), (SFIXED4, [0xD1])])
def test_views_have_quantized_data_as_it_is_stored(
    definition: OpDef, dtype: DType, stored: list[int]
) -> None:
    data = ArrayData(np.array(stored, dtype.numpy))
    inputs = (TensorSpec((1, 2), FLOAT32), TensorSpec((2,), dtype, data=data))
    form, memory = form_of_view(OpView("Math", "Sum", "op", inputs, (None,), {}), definition)
    assert form.inputs[1].dtype == dtype.code
    expected = [-2, 3] if dtype is SFIXED8 else [1, -3]
    assert static_array(form.inputs[1], memory.memory()).tolist() == expected


def test_arguments_of_compiled_kernels() -> None:
    kernel = Kernel("k", "f", "ifso", (3, 2, "text", [1.5, 2.5]), "linux-x86_64", "cc", b"")
    found, data = arguments_of(kernel)
    assert [(param.name, param.value) for param in found.params[:3]] == [("i", 3), ("f", 2.0), ("s", "text")]
    assert found.params[3].tensor is not None
    assert static_array(found.params[3].tensor, data.memory()).tolist() == [1.5, 2.5]
    for letters, values in (
        ("i", ("text",)),
        ("s", (1,)),
        ("o", (1,)),
        ("ii", (1,)),
        ("q", (1,)),
        ("i", (1.5,)),
    ):
        with pytest.raises(BackendError):
            arguments_of(Kernel("k", "f", letters, values, "", "", b""))


@pytest.mark.parametrize("kind", ["c", "python"])
@needs_cc
def test_kernels_see_what_the_model_tells(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    model = Model({"graph": graph_of(stored_weight())})
    udo.add_definitions(model, {"Math": parse_collection(XML.encode(), "test.xml")})
    path = request.getfixturevalue("library") if kind == "c" else tmp_path / "k.py"
    if kind == "python":
        path.write_text(
            "import numpy as np\nfrom xdlc.udo import kernel\n"
            "@kernel('Math', 'Sum')\ndef f(inputs, params, outputs):\n"
            "    a, w, none, c = inputs\n"
            "    assert none is None and w.dtype == np.float32 and params == {'mode': 'MEAN'}, params\n"
            "    return (a + w + c) / np.float32(3)\n"
        )
    a, c = np.float32([[[[1, 2], [3, 4]]]]), np.float32([[[[5, 6], [7, 8]]]])
    with Kernels(path, model=model) as kernels:
        got = CpuSession(model, kernels=kernels).run({"a": a, "c": c})["y"]
    np.testing.assert_allclose(got, (a + c + np.float32([[[[-1, -0.5], [0, 0.5]]]])) / 3, rtol=1e-6)


def test_scalars_of_every_kind_reach_python(tmp_path: Path) -> None:
    path = tmp_path / "k.py"
    path.write_text(
        "from xdlc.udo import kernel\n@kernel('Math', 'Any')\ndef f(inputs, params, outputs):\n"
        "    assert params == {'b': True, 'f': 0.5, 'u': 7}, params\n    return inputs[0]\n"
    )
    graph = Graph("graph")
    x = graph.add_input(Tensor("x", (2,), FLOAT32))
    params = {"b": b8(True), "f": f32(0.5), "u": u32(7)}
    graph.append(make_op(graph, "Any", [x], [Tensor("y", (2,), FLOAT32)], params, package="Math"))
    graph.add_output(graph.tensors["y"])
    with Kernels(path) as kernels:
        CpuSession(graph, kernels=kernels).run({"x": np.zeros(2, np.float32)})


@pytest.mark.parametrize(
    ("backend", "dtype", "kind"),
    [("CPU", "FLOAT_32", "float32"), ("CPU", "UFIXED_POINT_8", "uint8"), ("GPU", "FLOAT_16", "float32")],
)
def test_types_that_are_left_to_backends_are_those_of_the_cpu(backend: str, dtype: str, kind: str) -> None:
    backends = f"<SupportedBackend>{backend}</SupportedBackend>"
    tables = f"""
      <SupplementalOpDefList Backend="{backend}"><SupportedOps><OpName>Sum</OpName></SupportedOps>
        <SupplementalOpDef><Name>Sum</Name><Input><Name>weight</Name>
        <Datatype>QNN_DATATYPE_{dtype}</Datatype></Input></SupplementalOpDef>
      </SupplementalOpDefList></OpDefCollection>"""
    text = XML.replace("QNN_DATATYPE_UFIXED_POINT_8", "BACKEND_SPECIFIC")
    text = text.replace("<SupportedBackend>CPU</SupportedBackend>", backends)
    text = text.replace("</OpDefCollection>", tables)
    model = Model({"graph": graph_of(stored_weight())})
    udo.add_definitions(model, {"Math": parse_collection(text.encode(), "test.xml")})
    (definition,) = kernels_module._definitions(model).values()
    assert weight_as(stored_weight(), definition)[0] == kind
