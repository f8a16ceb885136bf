"""Nodes whose operators users define, from ONNX."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.support.custom_ops import (
    converted,
    custom,
    custom_op,
    like_first,
    my_node,
    onnx_model,
    param,
    place,
)
from xdlc.container import udo
from xdlc.converter.onnx import FRONTEND
from xdlc.errors import ConstraintError, ProblemList, UnsupportedOp, XdlcError
from xdlc.ir import Role
from xdlc.ir.dtype import (
    BOOL8,
    FLOAT32,
    INT32,
    SFIXED8,
    UINT8,
    UINT32,
    DType,
)
from xdlc.opdefs.model import Collection, Constraint, SupplementOp, SupplementTable, SupplementTensor
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.source_match import UdoSet

F32 = np.float32
SCALE = custom("Scale", [place("x")], [place("y")], param("factor", FLOAT32))


def scale_model(**attributes: Any) -> Any:
    return onnx_model(
        [my_node("Scale", ["x"], ["y"], **attributes)], {"x": (F32, [2, 3])}, {"y": (F32, [2, 3])}
    )


def test_a_node_becomes_an_op_of_the_package(tmp_path: Path) -> None:
    model = converted(tmp_path, scale_model(factor=2), SCALE)
    op = custom_op(model)
    assert (op.package, op.type, op.name, op.origin.nodes) == ("Pkg", "Scale", "n_Scale", ("n_Scale",))
    assert op.param("factor") == 2.0
    assert [tensor.name for tensor in (*op.inputs, *op.outputs) if tensor] == ["x", "y"]
    assert model.metadata["nodes"] == [["n_Scale", "my.domain::Scale", None]]
    assert udo.definition(model, op) == SCALE.definition


def test_without_a_definition_the_fix_names_the_tool_that_drafts_one(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedOp, match=r"my\.domain::Scale") as caught:
        converted(tmp_path, scale_model(factor=2))
    assert "xdlc udo-config from-model" in str(caught.value.fix)


@pytest.mark.parametrize(
    ("framework", "fix"),
    [
        ("onnx", "change domain of plugin P (p.py:1) from 'other' to 'my.domain'; or describe"),
        ("caffe", "add 'onnx' to framework of plugin P (p.py:1); or describe"),
    ],
)
def test_a_plugin_for_another_domain_or_framework_is_named(tmp_path: Path, framework: str, fix: str) -> None:
    other = replace(
        SCALE, frameworks=(framework,), domain="other", parse_params=dict, source="plugin P (p.py:1)"
    )
    with pytest.raises(UnsupportedOp, match="has no mapping") as caught:
        converted(tmp_path, scale_model(), other)
    assert str(caught.value.fix).startswith(fix)


def test_all_misfits_of_a_node_are_listed_each_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(ProblemList) as caught:
        converted(tmp_path, scale_model(facto=2.0, other=1), SCALE)
    problems = caught.value.problems
    assert [problem.problem for problem in problems] == [
        "Pkg::Scale: attribute 'facto' is not a parameter; parameters: factor; nearest: factor",
        "Pkg::Scale: attribute 'other' is not a parameter; parameters: factor",
        "Pkg::Scale: the node has no attribute 'factor', a mandatory parameter",
    ]
    assert all(problem.node == "n_Scale" and "n_Scale" in str(problem.where) for problem in problems)


def test_a_definition_goes_before_the_native_mapping_and_is_not_folded(tmp_path: Path) -> None:
    relu = custom("Relu", [place("x")], [place("y")])
    node = helper.make_node("Relu", ["w"], ["y"], name="n")
    given = {"w": np.array([-1, 2], F32)}
    model = converted(tmp_path, onnx_model([node], {}, {"y": (F32, [2])}, given), relu)
    op = custom_op(model)
    assert (op.package, op.type) == ("Pkg", "Relu")
    assert op.inputs[0] is not None
    assert op.inputs[0].role is Role.STATIC


def test_a_type_of_another_domain_is_not_taken_for_onnx_own(tmp_path: Path) -> None:
    nodes = [
        my_node("Neg", ["x"], ["m"]),
        helper.make_node("Neg", ["m"], ["y"], name="native"),
    ]
    given = onnx_model(nodes, {"x": (F32, [2])}, {"y": (F32, [2])}, infos={"m": (F32, [2])})
    notices: list[str] = []
    model = converted(tmp_path, given, custom("Neg", [place("x")], [place("y")]), notify=notices.append)
    [notice] = notices
    assert "Pkg::Neg" in notice
    assert "xdlc still converts Neg of ONNX itself" in notice
    assert [(op.package, op.type) for op in model.main.ops] == [
        ("Pkg", "Neg"),
        ("qti.aisw", "ElementWiseUnary"),
    ]


@pytest.mark.parametrize("bound", [{}, {"define_symbol": {"d": 4}}, {"input_dims": {"x": (4,)}}])
def test_dynamic_dimensions_stay_so_or_follow_the_symbols_of_the_inputs(tmp_path: Path, bound: Any) -> None:
    given = onnx_model([my_node("Scale", ["x"], ["y"], factor=1.0)], {"x": (F32, ["d"])}, {"y": (F32, ["d"])})
    op = custom_op(converted(tmp_path, given, SCALE, **bound))
    output = op.outputs[0]
    assert (output.shape, output.dynamic_axes) == (((4,), ()) if bound else ((1,), (0,)))


@pytest.mark.parametrize("open_as", ["-1", "no shape"])
def test_binding_what_a_model_leaves_open_contradicts_nothing_that_it_states(
    tmp_path: Path, open_as: str
) -> None:
    given = onnx_model([my_node("Scale", ["x"], ["y"], factor=1.0)], {"x": (F32, [-1])}, {"y": (F32, [3])})
    if open_as == "no shape":
        given.graph.input[0].type.tensor_type.ClearField("shape")
    op = custom_op(converted(tmp_path, given, SCALE, input_dims={"x": (3,)}))
    assert (op.outputs[0].shape, op.outputs[0].dynamic_axes) == ((3,), ())


def test_an_output_of_no_known_shape_is_told_with_the_ways_to_give_it(tmp_path: Path) -> None:
    nodes = [my_node("Scale", ["x"], ["m"], factor=1.0), helper.make_node("Relu", ["m"], ["y"])]
    source = onnx_model(nodes, {"x": (F32, [2])}, {"y": (F32, [2])})
    with pytest.raises(UnsupportedOp, match=r"the shape of output 0 \('y'\) is not known") as caught:
        converted(tmp_path, source, SCALE)
    assert "converter_op_package_lib FILE.py" in str(caught.value.fix)
    named = custom(
        "Scale", [place("x", [FLOAT32])], [place("y", [FLOAT32], text="[x]")], param("factor", FLOAT32)
    )
    with pytest.raises(UnsupportedOp, match="is not known: 'x' is the name of a tensor, not of a dimension"):
        converted(tmp_path, source, named)
    op = custom_op(converted(tmp_path, source, SCALE, shapes={("Pkg", "Scale"): like_first}))
    assert op.outputs[0].shape == (2,)


@pytest.mark.parametrize("dtypes", [[FLOAT32], [UINT8], [FLOAT32, UINT8]])
def test_the_text_of_a_definition_tells_the_shape(tmp_path: Path, dtypes: Any) -> None:
    op = custom(
        "Paint",
        [place("image", dtypes, layout="NHWC", text="[N, H, W, C]")],
        [place("y", dtypes, layout="NHWC", text="[N, H * by, W * by, 7]")],
        param("by", UINT32),
    )
    nodes = [my_node("Paint", ["x"], ["m"], by=2), helper.make_node("Relu", ["m"], ["y"])]
    given = onnx_model(nodes, {"x": (F32, [1, 3, 4, 5])}, {"y": (F32, [1, 7, 8, 10])})
    made = custom_op(converted(tmp_path, given, op))
    assert (made.outputs[0].shape, made.outputs[0].dtype) == ((1, 8, 10, 7), FLOAT32)
    nodes[1:] = []
    nodes[0].output[0] = "y"
    wrong = onnx_model(nodes, {"x": (F32, [1, 3, 4, 5])}, {"y": (F32, [1, 7, 8, 11])})
    with pytest.raises(
        UnsupportedOp, match=r"\[1, 8, 10, 7\] for the definition, but \[1, 8, 11, 7\] for the"
    ):
        converted(tmp_path, wrong, op)


def test_rules_of_a_definition_are_enforced(tmp_path: Path) -> None:
    rule = Constraint("0", "Value", "factor > 0")
    op = custom("Scale", [place("x")], [place("y")], param("factor", FLOAT32, constraints=(rule,)))
    assert custom_op(converted(tmp_path, scale_model(factor=1.0), op)).param("factor") == 1.0
    with pytest.raises(ConstraintError, match="factor") as caught:
        converted(tmp_path, scale_model(factor=-1.0), op)
    assert "n_Scale" in str(caught.value.where)


def test_a_shape_function_that_contradicts_the_model_is_an_error_that_names_both(tmp_path: Path) -> None:
    given = onnx_model([my_node("Scale", ["x"], ["y"], factor=1.0)], {"x": (F32, [2])}, {"y": (F32, [3])})
    with pytest.raises(UnsupportedOp, match=r"is \[2\] for the shape function, but \[3\] for the model"):
        converted(tmp_path, given, SCALE, shapes={("Pkg", "Scale"): like_first})


def test_optional_inputs_repeated_inputs_and_outputs(tmp_path: Path) -> None:
    op = custom(
        "Join",
        [place("a"), place("b", mandatory=False), place("rest", mandatory=False, repeated=True)],
        [place("y"), place("parts", mandatory=False, repeated=True)],
    )
    source = onnx_model(
        [my_node("Join", ["x", "", "x", "z"], ["y", "p", "q"])],
        {"x": (F32, [2]), "z": (F32, [3])},
        {"y": (F32, [5]), "p": (F32, [2]), "q": (F32, [3])},
    )
    made = custom_op(converted(tmp_path, source, op))
    assert [tensor and tensor.name for tensor in made.inputs] == ["x", None, "x", "z"]
    assert [tensor.name for tensor in made.outputs] == ["y", "p", "q"]


def test_inputs_beyond_the_definition_tell_a_constant_from_a_missing_parameter(tmp_path: Path) -> None:
    source = onnx_model(
        [my_node("Scale", ["x", "f"], ["y"])],
        {"x": (F32, [2])},
        {"y": (F32, [2])},
        {"f": np.ones(1, F32)},
    )
    with pytest.raises(ProblemList) as caught:
        converted(tmp_path, source, SCALE)
    assert any("IsStaticTensor" in str(problem.fix) for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("inputs", "attributes", "text"),
    [
        (["x"], {"w": 1.0}, "'w' is an input in the definition"),
        (["x", ""], {}, "is mandatory, but missing"),
        (["x", "x"], {}, "the definition needs static data"),
    ],
)
def test_misfits_of_static_inputs(tmp_path: Path, inputs: list[str], attributes: Any, text: str) -> None:
    op = custom("Scale", [place("x"), place("w", is_static=True)], [place("y")])
    given = onnx_model([my_node("Scale", inputs, ["y"], **attributes)], {"x": (F32, [2])}, {"y": (F32, [2])})
    with pytest.raises(XdlcError) as caught:
        converted(tmp_path, given, op)
    assert text in str(caught.value)


def test_layouts_are_permuted_with_a_reason(tmp_path: Path) -> None:
    op = custom(
        "Paint", [place("image", layout="NHWC"), place("plain", layout="NCHW")], [place("y", layout="NHWC")]
    )
    source = onnx_model(
        [my_node("Paint", ["x", "x"], ["y"])],
        {"x": (F32, [1, 3, 4, 5])},
        {"y": (F32, [1, 7, 4, 5])},
    )
    model = converted(tmp_path, source, op)
    made = custom_op(model)
    assert [tensor.shape for tensor in made.inputs if tensor] == [(1, 4, 5, 3), (1, 3, 4, 5)]
    assert made.outputs[0].shape == (1, 4, 5, 7)
    reasons = [each.origin.reason for each in model.main.ops if each.type == "Transpose"]
    assert reasons == [
        "Pkg::Paint needs input `image` in NHWC",
        "output 'y' keeps the source's axis order",
    ]


def test_dynamic_dimensions_are_permuted_too(tmp_path: Path) -> None:
    op = custom("Paint", [place("x", layout="NHWC")], [place("y", layout="NHWC")])
    source = onnx_model(
        [my_node("Paint", ["x"], ["y"])],
        {"x": (F32, [1, 3, "h", 5])},
        {"y": (F32, [1, 3, "h", 5])},
    )
    model = converted(tmp_path, source, op)
    tensors = [tensor for each in model.main.ops for tensor in each.outputs]
    assert [(each.type, each.package) for each in model.main.ops] == [
        ("Transpose", "qti.aisw"),
        ("Paint", "Pkg"),
        ("Transpose", "qti.aisw"),
    ]
    assert [(tensor.shape, tensor.dynamic_axes) for tensor in tensors] == [
        ((1, 1, 5, 3), (1,)),
        ((1, 1, 5, 3), (1,)),
        ((1, 3, 1, 5), (2,)),
    ]


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda op: (2,), r"the shape function returns \(2,\)"),
        (lambda op: [None, None], "returns 2 outputs, but the op has 1"),
        (lambda op: op.nothing, "the shape function fails: AttributeError"),
    ],
)
def test_shape_functions_that_give_nothing_of_use(tmp_path: Path, function: Any, text: str) -> None:
    with pytest.raises(UnsupportedOp, match=text):
        converted(tmp_path, scale_model(factor=1.0), SCALE, shapes={("Pkg", "Scale"): function})


def test_integers_are_cast_to_what_the_definition_takes(tmp_path: Path) -> None:
    op = custom("Pick", [place("x"), place("at", [INT32]), place("of", [UINT32])], [place("y", [INT32])])
    source = onnx_model(
        [my_node("Pick", ["x", "i", "n"], ["y"])],
        {"x": (F32, [2]), "i": (np.int64, [2])},
        {"y": (np.int64, [2])},
        {"n": np.array([4], np.int64)},
    )
    model = converted(tmp_path, source, op)
    made = custom_op(model)
    assert [tensor.dtype for tensor in (*made.inputs, *made.outputs) if tensor] == [
        FLOAT32,
        INT32,
        UINT32,
        INT32,
    ]
    reasons = [each.origin.reason for each in model.main.ops if each.type == "Cast"]
    assert reasons == [
        "Pkg::Pick needs input `at` as int32",
        "Pkg::Pick outputs int32, but the model has int64",
    ]


def test_two_packages_with_one_type_need_a_choice(tmp_path: Path) -> None:
    other = custom("Scale", [place("x")], [place("y")], param("factor", FLOAT32), package="Other")
    with pytest.raises(UnsupportedOp, match="Pkg::Scale and Other::Scale both match"):
        converted(tmp_path, scale_model(factor=1.0), SCALE, other)
    narrow = custom("Scale", [place("x")], [place("y")], package="Other")
    assert custom_op(converted(tmp_path, scale_model(factor=1.0), narrow, SCALE)).package == "Pkg"


def test_of_two_packages_the_one_of_the_nodes_domain_is_taken(tmp_path: Path) -> None:
    ops = [custom("Scale", [place("x")], [place("y")], package=name) for name in ("A", "B")]
    packages = {
        op.definition.package: Collection(op.definition.package, domain, "1.0", (op.definition,), ())
        for op, domain in zip(ops, ("other", "my.domain"), strict=True)
    }
    onnx.save(scale_model(), tmp_path / "m.onnx")
    model = FRONTEND.convert(tmp_path / "m.onnx", udos=UdoSet(tuple(ops), packages), notify=[].append)
    assert [op.package for op in model.main.ops] == ["B"]


def test_nodes_inside_of_branches_become_ops_too(tmp_path: Path) -> None:
    branches = {
        f"{word}_branch": helper.make_graph(
            [my_node("Scale", ["x"], [word], factor=number)],
            word,
            [],
            [helper.make_tensor_value_info(word, 1, [2])],
        )
        for word, number in (("then", 1.0), ("else", 2.0))
    }
    node = helper.make_node("If", ["c"], ["y"], name="n_if", **branches)
    given = onnx_model([node], {"c": (np.bool_, []), "x": (F32, [2])}, {"y": (F32, [2])})
    model = converted(tmp_path, given, SCALE)
    made = [op for graph in model.graphs.values() for op in graph.ops if op.package == "Pkg"]
    assert sorted(op.param("factor") for op in made) == [1.0, 2.0]


def test_nodes_inside_of_functions_become_ops_too(tmp_path: Path) -> None:
    function = helper.make_function(
        "fn",
        "Twice",
        ["a"],
        ["b"],
        [my_node("Scale", ["a"], ["m"], factor=2.0), helper.make_node("Relu", ["m"], ["b"])],
        [helper.make_opsetid("", 17)],
        value_info=[helper.make_tensor_value_info("m", 1, [2])],
    )
    source = onnx_model(
        [helper.make_node("Twice", ["x"], ["y"], domain="fn")],
        {"x": (F32, [2])},
        {"y": (F32, [2])},
        functions=[function],
        imports=(("", 17), ("fn", 1)),
    )
    assert custom_op(converted(tmp_path, source, SCALE)).param("factor") == 2.0


def test_a_function_gives_way_to_a_definition_of_its_name(tmp_path: Path) -> None:
    body = [helper.make_node("Relu", ["a"], ["b"])]
    function = helper.make_function("fn", "Scale", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    source = onnx_model(
        [helper.make_node("Scale", ["x"], ["y"], domain="fn", factor=2.0)],
        {"x": (F32, [2])},
        {"y": (F32, [2])},
        functions=[function],
        imports=(("", 17), ("fn", 1)),
    )
    assert custom_op(converted(tmp_path, source, SCALE)).type == "Scale"


def test_scalars_lie_as_one_element(tmp_path: Path) -> None:
    op = custom("Sum", [place("x"), place("s"), place("c")], [place("y")])
    nodes = [my_node("Sum", ["x", "s", "c"], ["m"]), helper.make_node("Add", ["x", "m"], ["y"])]
    source = onnx_model(
        nodes,
        {"x": (F32, [2]), "s": (F32, [])},
        {"y": (F32, [2])},
        {"c": np.array(3, F32)},
        infos={"m": (F32, [])},
    )
    made = custom_op(converted(tmp_path, source, op))
    assert [tensor.shape for tensor in (*made.inputs, *made.outputs) if tensor] == [(2,), (1,), (1,), (1,)]


def test_types_that_differ_between_cores_are_all_allowed(tmp_path: Path) -> None:
    op = custom("Pick", [place("x"), place("at", [])], [place("y")])
    held = {
        name: SupplementOp("Pick", {"at": SupplementTensor("at", (dtype,))}, {}, {})
        for name, dtype in (("CPU", INT32), ("DSP", UINT8))
    }
    tables = tuple(SupplementTable(name, frozenset({"Pick"}), {"Pick": (row,)}) for name, row in held.items())
    given = onnx_model(
        [my_node("Pick", ["x", "i"], ["y"])], {"x": (F32, [2]), "i": (np.int64, [2])}, {"y": (F32, [2])}
    )
    onnx.save(given, tmp_path / "m.onnx")
    packages = {"Pkg": Collection("Pkg", "d", "1.0", (op.definition,), tables)}
    model = FRONTEND.convert(tmp_path / "m.onnx", udos=UdoSet((op,), packages))
    at = custom_op(model).inputs[1]
    assert at is not None
    assert at.dtype is INT32
    assert udo.definitions(model) == packages


def test_a_convolution_of_the_users_gets_no_permutes(tmp_path: Path) -> None:
    op = custom("Conv", [place("x"), place("w", is_static=True)], [place("y")])
    source = onnx_model(
        [helper.make_node("Relu", ["x"], ["m"]), helper.make_node("Conv", ["m", "w"], ["y"])],
        {"x": (F32, [1, 2, 3, 3])},
        {"y": (F32, [1, 4, 3, 3])},
        {"w": np.ones((4, 2, 1, 1), F32)},
    )
    model = converted(tmp_path, source, op)
    assert [each.type for each in model.main.ops] == ["ElementWiseNeuron", "Conv"]
    assert custom_op(model).inputs[0].shape == (1, 2, 3, 3)  # type: ignore[union-attr]


def test_values_that_no_dlc_holds_are_refused(tmp_path: Path) -> None:
    given = onnx_model([my_node("Scale", ["x"], ["y"], factor=1.0)], {"x": (F32, [2])}, {"y": (str, [2])})
    with pytest.raises(UnsupportedOp, match="'y' of the node is strings"):
        converted(tmp_path, given, SCALE)


def test_shapes_that_a_model_states_for_other_inputs_are_not_those_of_the_op(tmp_path: Path) -> None:
    proto = scale_model(factor=2)
    with pytest.raises(UnsupportedOp, match="the model states for inputs of other shapes"):
        converted(tmp_path, proto, SCALE, batch=4)
    shapes = {("Pkg", "Scale"): like_first}
    assert converted(tmp_path, proto, SCALE, batch=4, shapes=shapes).main.outputs[0].shape == (4, 3)


def test_what_follows_from_an_op_and_is_not_as_the_model_states_is_told(tmp_path: Path) -> None:
    nodes = [my_node("Scale", ["x"], ["y"], factor=2.0), helper.make_node("Relu", ["y"], ["z"])]
    proto = onnx_model(nodes, {"x": (F32, [2, 3])}, {"z": (F32, [3, 2])})
    notices: list[str] = []
    converted(tmp_path, proto, SCALE, shapes={("Pkg", "Scale"): like_first}, notify=notices.append)
    [notice] = notices
    assert all(text in notice for text in ("'z'", "[2, 3]", "[3, 2]"))


@pytest.mark.parametrize(
    ("dtypes", "guessed"), [([BOOL8, FLOAT32], True), ([FLOAT32, UINT8, SFIXED8], False)]
)
def test_a_data_type_that_nothing_states_is_told_once(
    tmp_path: Path, dtypes: list[DType], guessed: bool
) -> None:
    op = custom("Less", [place("x", text="[N, C]")], [place("y", dtypes, text="[N, C]")])
    nodes = [*(my_node("Less", ["x"], [name]) for name in "ab"), helper.make_node("Add", ["a", "b"], ["y"])]
    notices: list[str] = []
    proto = onnx_model(nodes, {"x": (F32, [2, 3])}, {"y": None})
    model = converted(tmp_path, proto, op, notify=notices.append)
    assert model.main.outputs[0].dtype is FLOAT32
    assert [text.split(":")[:3] for text in notices] == [["Pkg", "", "Less"]] * guessed
    assert all("output 0 ('y')" in text for text in notices)


def test_plain_integers_stand_for_reals_where_a_definition_has_nothing_else(tmp_path: Path) -> None:
    def shape(op: OpView) -> list[TensorSpec]:
        return [TensorSpec((2, 3), UINT8)]

    shapes = {("Pkg", "Scale"): shape}
    quantized = custom("Scale", [place("x", [UINT8])], [place("y", [UINT8])], param("factor", FLOAT32))
    made = custom_op(converted(tmp_path, scale_model(factor=1.0), quantized, shapes=shapes))
    assert made.outputs[0].dtype is FLOAT32
    with pytest.raises(UnsupportedOp, match="is uint8 for the shape function, but float32"):
        converted(tmp_path, scale_model(factor=1.0), SCALE, shapes=shapes)
