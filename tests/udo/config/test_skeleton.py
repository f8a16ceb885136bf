"""Definitions drafted from nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xdlc.errors import ModelError, ProblemList, UnsupportedOp, UsageError
from xdlc.ir.data import ArrayData
from xdlc.ir.dtype import (
    BOOL8,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    STRING,
    UFIXED8,
    UFIXED16,
    UINT8,
    UINT32,
    DType,
)
from xdlc.opdefs.model import OpDef
from xdlc.opdefs.semantics import check_collection
from xdlc.opdefs.source_match import Declared, UncoveredNode
from xdlc.udo.config import draft
from xdlc.udo.config.convert import drafted

X = Declared((1, 4), FLOAT32, name="x")
Y = Declared((1, 4), FLOAT32, name="y")
REALS = (FLOAT32, UFIXED8, UFIXED16)


def node(inputs: Any = (X,), outputs: Any = (Y,), type: str = "Blur", **more: Any) -> UncoveredNode:
    domain, name = more.pop("domain", "my.domain"), more.pop("name", f"n_{type}")
    return UncoveredNode(type, domain, name, f"m.onnx: node {name!r}", tuple(inputs), tuple(outputs), more)


def only(*nodes: UncoveredNode) -> OpDef:
    (collection,) = draft(nodes, "P", "m.onnx", backends=("CPU", "HTP")).collections
    assert check_collection(collection) == []
    (definition,) = collection.opdefs
    return definition


def words(parts: Any) -> str:
    return " ".join(part.text for part in parts)


def test_one_node() -> None:
    weight = Declared((3,), INT64, name="w", is_static=True)
    (collection,) = draft([node([X, weight], mode="fast", radius=2)], "P", "m.onnx").collections
    assert (collection.package, collection.domain, collection.version) == ("P", "my.domain", "1.0")
    (blur,) = collection.opdefs
    assert (blur.name, blur.package, blur.backends) == ("Blur", "P", ("CPU",))
    assert [(one.name, one.mandatory, one.dtypes, one.rank, one.is_static) for one in blur.inputs] == [
        ("in[0]", True, (FLOAT32,), 2, False),
        ("in[1]", True, (INT32,), 1, True),
    ]
    assert [(one.name, one.dtypes, one.rank) for one in blur.outputs] == [("out[0]", (FLOAT32,), 2)]
    assert [(one.name, one.mandatory, one.dtypes, one.rank) for one in blur.params.values()] == [
        ("mode", True, (STRING,), 0),
        ("radius", True, (INT32,), 0),
    ]
    assert words(blur.description).startswith("Drafted from m.onnx: my.domain::Blur, node 'n_Blur'.")
    assert words(blur.inputs[1].description) == "In the model: 'w' int64[3]."
    assert words(blur.params["mode"].description) == "Attribute 'mode': 'fast'."


def test_open_extents_can_be_assumed_to_be_those_of_the_first_input() -> None:
    opened = Declared((1, None), FLOAT32, name="y")
    (collection,) = draft([node(outputs=[opened])], "P", "m.onnx").collections
    assert collection.opdefs[0].outputs[0].text == ""
    drafted = draft([node(outputs=[opened])], "P", "m.onnx", same_shapes=True)
    assert drafted.collections[0].opdefs[0].outputs[0].text == "same as in[0]"
    assert any("leaves dynamic dimensions of 'y'" in text for text in drafted.notices)
    stated = draft([node(outputs=[opened]), node()], "P", "m.onnx", same_shapes=True)
    assert stated.collections[0].opdefs[0].outputs[0].text == ""


@pytest.mark.parametrize(
    ("value", "dtype", "rank"),
    [
        (3, INT32, 0),
        (-(2**31), INT32, 0),
        (2**32 - 1, UINT32, 0),
        (2**32, INT64, 0),
        (1.5, FLOAT32, 0),
        ("a", STRING, 0),
        ([1, 2], INT32, 1),
        ([1, 2.5], FLOAT32, 1),
        (["a", "b"], STRING, 0),
        (ArrayData(np.zeros((2, 3), np.float64)), FLOAT32, 2),
        (ArrayData(np.zeros((2,), np.bool_)), BOOL8, 1),
        (ArrayData(np.zeros((), np.uint8)), UINT8, 0),
        (ArrayData(np.zeros((1, 1, 1, 1, 1), np.uint8)), UINT8, None),
    ],
)
def test_attributes(value: Any, dtype: DType, rank: int | None) -> None:
    param = only(node(p=value)).params["p"]
    assert (param.dtypes, param.rank, param.mandatory) == ((dtype,), rank, True)


def test_an_attribute_that_some_nodes_lack_is_optional() -> None:
    params = only(node(a=1, b=[], c=2), node(a=2.5, b=[1]), node(a=3, c=[])).params
    assert [(one.mandatory, one.dtypes) for one in params.values()] == [
        (True, (FLOAT32,)),
        (False, (INT32,)),
        (False, (INT32,)),
    ]
    assert words(params["a"].description) == "Attribute 'a': 1, 2.5, 3."
    assert words(params["b"].description) == "Attribute 'b': [1]; 1 of 3 nodes have this attribute."


def test_an_empty_list_everywhere() -> None:
    param = only(node(a=[])).params["a"]
    assert (param.mandatory, param.dtypes, param.rank) == (False, (INT32,), 1)


@pytest.mark.parametrize(
    "value", [[object()], object(), [[1]], ["a", 1], ArrayData(np.array([b"a"], object))]
)
def test_attributes_that_are_no_parameters(value: Any) -> None:
    with pytest.raises(UnsupportedOp, match=r"attribute 'p' of my\.domain::Blur is a graph") as caught:
        draft([node(p=value)], "P", "m.onnx")
    assert caught.value.where == "m.onnx: node 'n_Blur'"


@pytest.mark.parametrize(
    ("values", "dtypes", "rank"),
    [
        ((1, [1, 2]), (INT32,), 1),
        ((1.5, [1, 2]), (FLOAT32,), 1),
        (("a", ["b", "c"]), (STRING,), 0),
        (("a", 1), (INT32, STRING), 0),
        ((1, ArrayData(np.zeros((2, 2), np.uint8))), (UINT8, INT32), None),
    ],
)
def test_attributes_of_two_forms(values: Any, dtypes: tuple[DType, ...], rank: int | None) -> None:
    param = only(*(node(p=value) for value in values)).params["p"]
    assert (param.dtypes, param.rank) == (dtypes, rank)


def test_text_beside_lists_of_numbers_is_no_parameter() -> None:
    with pytest.raises(UnsupportedOp, match="is text on some nodes and several numbers on others"):
        draft([node(p="a"), node(p=[1, 2])], "P", "m.onnx")


def test_reals_may_be_stored_by_a_quantizer_unless_the_user_says_otherwise() -> None:
    half, number = Declared((1,), FLOAT16, name="h"), Declared((1,), INT32, name="i")
    blur = only(node([half, number, Declared((3,), FLOAT32, name="w", is_static=True)]))
    assert [one.dtypes for one in blur.inputs] == [(FLOAT16, *REALS), (INT32,), (FLOAT32,)]

    def told(*names: str) -> str:
        made = drafted([node()], [], "m.onnx", "-", package="P", form="json", datatypes=names)
        return made.texts["-"]

    assert "xdlc_data_types" not in told("FLOAT_32")
    assert "xdlc_data_types" not in told()  # the CPU alone gains nothing by fixed point
    assert '"xdlc_data_types": ["FLOAT_32", "UINT_8"]' in told("FLOAT_32", "UINT_8")
    with pytest.raises(UsageError, match="'INT_32' is not a float data type"):
        told("INT_32")


def test_a_draft_is_for_the_backends_that_the_user_names() -> None:
    made = drafted([node()], [], "m.onnx", "-", package="P", form="json", backends=["CPU", "DSP_V66"])
    assert '"core_types": ["CPU", "DSP"],\n                "dsp_arch_types": ["v66"]' in made.texts["-"]
    with pytest.raises(UsageError, match="unknown backend 'HTPP'"):
        drafted([node()], [], "m.onnx", "-", package="P", backends=["HTPP"])


def test_types_and_ranks_of_several_nodes() -> None:
    other = Declared((4,), INT64, name="z")
    blur = only(node(), node([other], [other]))
    assert [(one.dtypes, one.rank) for one in (*blur.inputs, *blur.outputs)] == [
        ((FLOAT32, INT32, UFIXED8, UFIXED16), None)
    ] * 2
    assert only(node([Declared((), FLOAT64, name="x")])).inputs[0].rank is None
    assert only(node([Declared((1,) * 5, FLOAT64, name="x")])).inputs[0].rank is None


def test_different_numbers_of_one_kind_are_repeated() -> None:
    join = only(node([X, X]), node([X, X, X]))
    assert [(one.mandatory, one.repeated) for one in join.inputs] == [(True, True)]
    index = Declared((1,), INT32, name="i")
    pick = only(node([index, X]), node([index, X, X]))
    assert [(one.dtypes, one.mandatory, one.repeated) for one in pick.inputs] == [
        ((INT32,), True, False),
        (REALS, True, True),
    ]
    split = only(node(outputs=[X]), node(outputs=[X, X]))
    assert [(one.mandatory, one.repeated) for one in split.outputs] == [(True, True)]


def test_types_that_nothing_states_do_not_make_other_kinds() -> None:
    join = only(node([X, Y]), node([X, Declared(name="a"), Declared(name="b")]))
    assert [(one.dtypes, one.repeated) for one in join.inputs] == [(REALS, True)]


def test_different_numbers_of_other_kinds_are_optional() -> None:
    index, weight = Declared((1,), INT32, name="i"), Declared((1,), FLOAT32, name="w", is_static=True)
    blur = only(node([X]), node([X, index, weight]))
    assert [(one.mandatory, one.repeated) for one in blur.inputs] == [
        (True, False),
        (False, False),
        (False, False),
    ]
    tail = only(node([X]), node([X, index, index]))
    assert [(one.mandatory, one.repeated) for one in tail.inputs] == [(True, False), (False, True)]


def test_behind_one_that_is_left_out_all_are_optional() -> None:
    blur = only(node([X, None, X]), node([X, X, X, None], [X, None]))
    assert [one.mandatory for one in blur.inputs] == [True, False, False]
    assert len(blur.outputs) == 1


def test_what_is_not_stated_is_assumed_and_told() -> None:
    first = node(outputs=[Declared(name="a")], type="First", inputs=[Declared((2,), UINT8, name="x")])
    second = node([Declared(name="a")], [Declared((2,), FLOAT32, name="b")], type="Second")
    third = node([Declared(name="free")], type="Third")
    skeleton = draft([first, second, third], "P", "m.onnx")
    first_op, two, three = skeleton.collections[0].opdefs
    assert (first_op.outputs[0].dtypes, two.inputs[0].dtypes, three.inputs[0].dtypes) == (
        (UINT8,),
        (UINT8,),
        (FLOAT32,),
    )
    assert "Nothing states the data type: xdlc assumes the type of the first input" in words(
        first_op.outputs[0].description
    )
    assert [text.partition(": ")[2].partition(":")[0] for text in skeleton.notices] == [
        "out[0]",
        "out[0]",
        "in[0]",
        "in[0]",
    ]
    assert "the model states no shape of 'a'" in skeleton.notices[1]


def test_operators_of_one_name_in_several_domains() -> None:
    nodes = [node(domain="a"), node(type="Sharpen", domain="a"), node(domain="b")]
    skeleton = draft(nodes, "P", "m.onnx")
    assert [
        (held.package, held.domain, [op.name for op in held.opdefs]) for held in skeleton.collections
    ] == [
        ("P", "a", ["Blur", "Sharpen"]),
        ("P2", "b", ["Blur"]),
    ]
    assert all(op.package == held.package for held in skeleton.collections for op in held.opdefs)
    (both,) = draft(nodes[1:], "P", "m.onnx").collections
    assert both.domain == ""


def test_what_cannot_be_drafted_is_told_beside_what_can() -> None:
    strings = Declared(name="s", odd="strings")
    fine, odd = node(type="Fine"), node([X, strings], [strings])
    skeleton = draft([odd, fine, node(type="My-Op"), node(type="Kept", int=1)], "P", "m.onnx")
    assert [op.name for op in skeleton.collections[0].opdefs] == ["Fine"]
    assert [problem.problem.partition(", ")[0] for problem in skeleton.problems] == [
        "input 1 ('s') of my.domain::Blur is strings",
        "output 0 ('s') of my.domain::Blur is strings",
        "op name 'My-Op' has '-'",
        "op 'Kept': parameter name 'int' is a keyword of C++",
    ]
    assert [problem.where for problem in skeleton.problems[2:]] == [
        "m.onnx: node 'n_My-Op'",
        "m.onnx: node 'n_Kept'",
    ]
    with pytest.raises(ProblemList, match="2 problem"):
        draft([odd], "P", "m.onnx")


def test_a_name_that_no_package_can_have() -> None:
    with pytest.raises(ModelError, match="package name 'not a name' has ' '") as caught:
        draft([node()], "not a name", "m.onnx")
    assert caught.value.where is None


def test_an_operator_without_inputs_has_no_definition() -> None:
    with pytest.raises(UnsupportedOp, match="no input"):
        draft([node([])], "P", "m.onnx")
