"""What a plugin declares and does, and how its mistakes are told."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest

import xdlc
from tests.support.custom_ops import onnx_model
from tests.udo.plugin.plugins import node, of_class, op_of, params_of, spec, view, written
from xdlc.errors import ModelError, UsageError, XdlcError
from xdlc.ir.data import ArrayData
from xdlc.ir.dtype import FLOAT32
from xdlc.opdefs.model import Collection
from xdlc.opdefs.xml_reader import parse_collection
from xdlc.opdefs.xml_writer import write_collection
from xdlc.udo.plugin import (
    Bools,
    Enum,
    Float,
    Floats,
    Input,
    Int,
    Ints,
    Output,
    Plugin,
    Str,
    Strs,
    Tensor,
    plugin,
    reduced,
    same_as,
)
from xdlc.udo.plugin.collection import plugin_set

MINE = """class Mine(Plugin):
    op_type = "Mine"
    domain = "custom"
    package = "Pack"
    inputs = ["x"]
    outputs = ["y"]
"""


class Everything(Plugin):
    op_type = ("Every", "Each")
    domain = "custom"
    package = "Pack"
    name = "Everything"
    description = "All of it."
    inputs = (
        "x",
        Input("w", static=True, dtypes=("float32", "int8"), rank=2),
        Input("more", optional=True, repeated=True),
    )
    outputs = (Output("y", description="The result."),)
    params = {
        "axis": Int(-1),
        "scale": Float(source="coeff"),
        "mode": Enum("A", "B", default="B"),
        "label": Str(""),
        "steps": Ints(None),
        "factors": Floats([1, 2]),
        "flags": Bools([True]),
        "names": Strs(["a"]),
        "table": Tensor([[1, 2], [3, 4]], dtype="int32", rank=2),
    }


def test_the_definition_is_made_of_what_is_declared():
    op = of_class(Everything)
    definition = op.definition
    assert (definition.package, definition.name) == ("Pack", "Everything")
    assert definition.description[0].text == "All of it."
    assert op.source_types == ("Every", "Each")
    assert (op.frameworks, op.domain) == (("onnx",), "custom")
    x, w, more = definition.inputs
    assert (x.mandatory, x.is_static, x.rank, [t.name for t in x.dtypes]) == (True, False, None, ["float32"])
    assert (w.is_static, w.rank, [t.name for t in w.dtypes]) == (True, 2, ["float32", "int8"])
    assert (more.mandatory, more.repeated) == (False, True)
    assert definition.outputs[0].description[0].text == "The result."
    assert list(definition.params) == list(Everything.params)
    assert definition.params["mode"].enumeration == ("A", "B")


def test_parameters_are_read_from_attributes_of_their_names():
    op = of_class(Everything)
    params = params_of(
        op,
        node(coeff=2, mode=0, steps=[3, 4], names=["x", "y"], table=ArrayData(np.array([[5, 6]], np.int64))),
    )
    table = params.pop("table")
    assert params == {
        "axis": -1,
        "scale": 2.0,
        "mode": "A",
        "label": "",
        "steps": [3, 4],
        "factors": [1.0, 2.0],
        "flags": [True],
        "names": '["x", "y"]',
    }
    assert table == [[5, 6]]
    assert "steps" not in op.parse_params(node(coeff=1.0))


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({}, "no attribute 'scale', a mandatory parameter"),
        ({"coeff": 1.0, "axis": 1.5}, "is 1.5, but the parameter is int32"),
        ({"coeff": 1.0, "mode": "C"}, "the values are A"),
        ({"coeff": 1.0, "extra": 1, "other": 2}, "the plugin ignores attributes 'extra', 'other'"),
        ({"scale": 1.0}, "no attribute 'scale', a mandatory parameter"),
    ],
)
def test_attributes_that_do_not_fit(attributes, problem):
    with pytest.raises(UsageError, match=problem) as caught:
        of_class(Everything).parse_params(node(**attributes))
    assert "plugin Everything, parse_params, node 'n1'" in caught.value.where
    assert f"{__file__}:" in caught.value.where


def test_hooks_see_lists_as_lists(tmp_path):
    op = op_of(
        tmp_path,
        MINE
        + """
    params = {"names": Strs(), "axes": Ints()}

    def infer_shape_and_type(self, op):
        assert op.params["names"] == ["a", "b"], op.params
        assert op.params["axes"] == [0, -1], op.params
        return reduced(op.inputs[0], op.params["axes"])
""",
    )
    held = view(op, node(spec(2, 3, 4), names=["a", "b"], axes=[0, -1]))
    assert op.infer_shape_and_type(held) == (spec(3),)


def test_parse_params_of_its_own(tmp_path):
    op = op_of(
        tmp_path,
        MINE
        + """
    params = {"axis": Int(), "kind": Enum("SUM", "MEAN", default="SUM"), "rest": Ints([7])}

    def parse_params(self, node):
        kind = enum_map({1: "SUM", 4: "MEAN"})(node.attributes.get("k", 1))
        return {"axis": node.attributes["dim"] + 1, "kind": kind}
""",
    )
    assert params_of(op, node(dim=1, k=4)) == {"axis": 2, "kind": "MEAN", "rest": [7]}
    assert params_of(op, node(dim=1)) == {"axis": 2, "kind": "SUM", "rest": [7]}
    with pytest.raises(UsageError, match="the plugin ignores attribute 'other'") as caught:
        op.parse_params(node(dim=1, other=2))
    assert caught.value.fix == "read the attribute in parse_params"


def test_parse_params_may_begin_with_what_is_read_by_names():
    class Renaming(Everything):
        def parse_params(self, node):
            return {**super().parse_params(node), "axis": node.attributes["dim"] + 1}

    found = params_of(of_class(Renaming), node(dim=1, coeff=2.0, mode="A"))
    assert (found["axis"], found["scale"], found["mode"]) == (2, 2.0, "A")


@pytest.mark.parametrize(
    ("hook", "body", "problem", "line"),
    [
        ("parse_params", "return 1 / 0", "raised ZeroDivisionError: division by zero", 11),
        ("parse_params", "return {'none': 1}", "attribute 'none' is not a parameter", 3),
        ("parse_params", "return [1]", "returned list", 3),
        ("parse_params", "import sys; sys.exit('no')", "raised SystemExit: no", 11),
        ("parse_params", "return {'axis': node.attributes['missing']}", "raised KeyError: 'missing'", 11),
        ("parse_params", "return {'axis': node.attributes.need('dim')}", "attribute 'dim' is missing", 11),
        (
            "infer_shape_and_type",
            "return reduced(op.inputs[0], [5])",
            "axis 5 is not within -2..1 of 2 axes",
            11,
        ),
        ("infer_shape_and_type", "return op.inputs[0].shapes", "raised AttributeError", 11),
        ("infer_shape_and_type", "return (2, 3)", r"returned \(2, 3\)", 3),
        ("infer_shape_and_type", "return [op.inputs[0]] * 2", "returned 2 outputs instead of 1", 3),
        (
            "infer_shape_and_type",
            "return with_shape(op.inputs[0], (2, 0))",
            r"output 0 has shape \[2, 0\]",
            3,
        ),
        ("infer_shape_and_type", "return with_shape(op.inputs[0], (2, 'a'))", "output 0 has shape", 3),
        ("build_kernel", "return b'code'", "returned bytes", 3),
        ("build_kernel", "raise SystemError()", "raised SystemError: no text", 11),
        ("build_kernel", "return compile_c(op, '', entry='a b')", "not a C function name", 11),
    ],
)
def test_what_goes_wrong_in_a_hook_names_plugin_hook_and_line(tmp_path, hook, body, problem, line):
    argument = "node" if hook == "parse_params" else "op"
    text = MINE + f"    params = {{'axis': Int(0)}}\n    def {hook}(self, {argument}):\n        {body}\n"
    path = tmp_path / "mine.py"
    op = op_of(tmp_path, text)
    held = node(spec(2, 3))
    given = held if hook == "parse_params" else view(op, held)
    with pytest.raises(XdlcError, match=problem) as caught:
        getattr(op, hook)(given)
    assert caught.value.where.startswith(f"{path}:{line}: plugin Mine, {hook}, ")


def test_accepts_must_answer_yes_or_no(tmp_path):
    op = op_of(
        tmp_path, MINE + "    def accepts(self, node):\n        return node.inputs[0].shape == (1,) or None\n"
    )
    assert op.accepts(node(spec(1)))
    with pytest.raises(UsageError, match="returned None"):
        op.accepts(node(spec(2)))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("op_type = ''", "op_type is ''"),
        ("op_type = []", r"op_type is \[\]"),
        ("op_type = 3", "op_type is 3"),
        ("framework = 'onyx'", "there is no framework 'onyx'"),
        ("imply_type = 'TMV'", "there is no imply_type 'TMV'"),
        ("imply_type = 'TVM'", "needs build_kernel"),
        ("imply_type = 'ImplyType::AI_CPU'", "needs compute"),
        ("domain = ['a', 'b']", r"domain is \['a', 'b'\]"),
        ("package = ''", "package is ''"),
        ("package = 'a b'", "package is 'a b'"),
        ("package = 'qti.aisw'", "package 'qti.aisw' has built-in operations"),
        ("package = 'xdlc'", "package 'xdlc' has built-in operations"),
        ("package = 'snpe'", "package 'snpe' has built-in operations"),
        ("name = 'a-b'", "'a-b' is not an op type"),
        ("outputs = []", "has no outputs"),
        ("inputs = 'x'", "inputs is 'x'"),
        ("inputs = ['x', 'x']", "two inputs are named 'x'"),
        ("inputs = ['a b']", "'a b' is not a name"),
        ("inputs = [3]", "inputs hold 3|hold 3"),
        ("inputs = [Input('x', optional=True), 'y']", "y is mandatory, but follows an optional tensor"),
        ("inputs = [Input('x', repeated=True), 'y']", "x is repeated, but not the last"),
        ("inputs = [Input('x', dtypes='float32')]", "dtypes of x is the string"),
        ("inputs = [Input('x', dtypes=('float31',))]", "there is no data type 'float31'"),
        ("inputs = [Input('x', dtypes=('string',))]", "tensor of strings"),
        ("inputs = [Input('x', rank=0)]", "rank of x is 0"),
        ("params = ['axis']", "params is"),
        ("params = {'a b': Int()}", "not a parameter name"),
        ("params = {'axis': Int}", "parameter axis is"),
        ("params = {'axis': 0}", "parameter axis is 0"),
        ("formats = ['ND']", "formats is"),
        ("formats = (['ND', 'ND'], ['ND'])", "formats has 2 of inputs, but there are 1: x"),
        ("formats = ('ND', ['ND'])", "formats of inputs are 'ND'"),
        ("formats = (['NC'], ['ND'])", "no format 'NC'"),
        ("weight_formats = ['ND']", "has 1 of static inputs, but there are 0"),
        ("weight_formats = {'w': 'ND'}", "which is not an input"),
        ("weight_formats = 'ND'", "formats of static inputs are 'ND'"),
        ("description = 3", "description is 3"),
        ("config = 3; inputs = outputs = ()", "config is 3"),
        ("config = 'mine.xml'", "the plugin has config and inputs"),
        ("inputs = [Input('x', layout='NWHC')]", "layout of x is 'NWHC'"),
        ("inputs = [Input('x', layout='NHWC')]; formats = (['NCHW'], ['ND'])", "needs NCHW"),
        ("params = {'class': Int(0)}", "'class'"),
        ("version = 1", "version is 1"),
        ("config = 'missing.xml'; inputs = outputs = ()", "cannot be read"),
    ],
)
def test_declarations_that_are_wrong(tmp_path, change, problem):
    if "op_type" in change:  # such a class is a base, unless it is named
        path = written(tmp_path, MINE + f"    {change}\n")
        with pytest.raises(XdlcError, match=problem) as caught:
            plugin_set([f"{path}:Mine"], False)
    else:
        with pytest.raises(XdlcError, match=problem) as caught:
            op_of(tmp_path, MINE + f"    {change}\n")
    path = re.escape(str(tmp_path / "mine.py"))
    assert re.search(rf"{path}:\d+: plugin (Mine, declaration|mine.py, import)", caught.value.where)


def test_a_class_may_be_decorated():
    @plugin(op_type="Mine", package="Pack", inputs=["x"], outputs=["y"])
    class Mine:
        """Doubles."""

        def infer_shape_and_type(self, op):
            return same_as(op.inputs[0])

    assert issubclass(Mine, Plugin)
    op = of_class(Mine)
    assert op.infer_shape_and_type(view(op, node(spec(2)))) == (spec(2),)


def test_the_decorator_has_its_name_whatever_was_imported_before():
    import xdlc.udo
    import xdlc.udo.plugin as package

    for _ in range(2):
        from xdlc.udo import plugin as imported

        for decorator in (imported, xdlc.udo.plugin, package, package.plugin):
            made = decorator(op_type="Mine", package="Pack", inputs=["x"], outputs=["y"])(lambda *args: None)
            assert issubclass(made, Plugin)


def test_a_function_with_hooks_may_be_decorated():
    def outputs(op):
        return reduced(op.inputs[0], [op.params["axis"]])

    @plugin(
        op_type="Mine",
        package="Pack",
        inputs=["x"],
        outputs=["y"],
        params={"axis": Int(0)},
        infer_shape_and_type=outputs,
    )
    def total(inputs, params, outputs):
        return inputs[0].sum(params["axis"])

    op = of_class(total)
    assert op.infer_shape_and_type(view(op, node(spec(2, 5), axis=-1))) == (spec(2),)
    assert total.compute([np.ones((2, 5))], {"axis": -1}, []).tolist() == [5, 5]


def test_the_decorator_refuses_what_plugins_do_not_have():
    with pytest.raises(UsageError, match="a plugin has no 'op_types'") as caught:
        plugin(op_types="x")
    assert "op_type" in caught.value.fix
    with pytest.raises(UsageError, match="decorates a class or a function"):
        plugin(op_type="x")(3)
    with pytest.raises(UsageError, match="both an argument and a decorated"):
        plugin(op_type="x", compute=print)(print)


def test_definitions_come_back_from_a_dlc_as_they_were():
    held = plugin_set([Everything], False).collections["Pack"]
    assert parse_collection(write_collection(held).encode(), "x") == held


# ---------------------------------------------------------------------- built-in operators


class OwnConv(Plugin):
    op_type = "Conv"
    package = "Fast"

    def accepts(self, node):
        return node.inputs[0].shape == (1, 3, 8, 8)


def test_an_override_has_the_operators_own_inputs_and_attributes():
    op = of_class(OwnConv)
    assert op.domain == ""
    assert [(held.name, held.mandatory) for held in op.definition.inputs] == [
        ("X", True),
        ("W", True),
        ("B", False),
    ]
    assert [held.name for held in op.definition.outputs] == ["Y"]
    assert set(op.definition.params) == {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}
    assert not any(held.mandatory for held in op.definition.params.values())
    found = params_of(op, node(spec(1, 3, 8, 8), type="Conv", domain="", pads=[1, 1, 1, 1]))
    assert found == {"auto_pad": "NOTSET", "group": 1, "pads": [1, 1, 1, 1]}
    assert op.accepts(node(spec(1, 3, 8, 8)))
    assert not op.accepts(node(spec(1, 3, 9, 9)))


def test_an_override_tells_of_attributes_that_the_operator_does_not_have():
    with pytest.raises(UsageError, match="the plugin ignores attribute 'pad'"):
        of_class(OwnConv).parse_params(node(type="Conv", domain="", pad=1))


@pytest.mark.parametrize(
    ("type_", "inputs", "weights", "attributes", "shapes"),
    [
        ("Conv", {"x": [1, 3, 8, 8]}, {"w": np.ones((4, 3, 3, 3))}, {"pads": [1, 1, 1, 1]}, [(1, 4, 8, 8)]),
        ("Conv", {"x": [None, 3, 8, 8]}, {"w": np.ones((4, 3, 3, 3))}, {"strides": [2, 2]}, [(1, 4, 3, 3)]),
        ("Reshape", {"x": [2, 6]}, {"s": np.int64([3, -1])}, {}, [(3, 4)]),
        ("Split", {"x": [2, 6]}, {}, {"axis": 1, "num_outputs": 2}, [(2, 3), (2, 3)]),
        ("Concat", {"x": [2, 6], "y": [2, 1]}, {}, {"axis": -1}, [(2, 7)]),
        ("ReduceSum", {"x": [2, 6]}, {}, {"keepdims": 0}, [(1,)]),
    ],
)
def test_onnx_tells_the_outputs_of_its_own_operators(tmp_path, type_, inputs, weights, attributes, shapes):
    outputs = [f"out{place}" for place in range(len(shapes))]
    arrays = {
        name: array if array.dtype == np.int64 else np.float32(array) for name, array in weights.items()
    }
    model = onnx_model(
        [onnx.helper.make_node(type_, [*inputs, *weights], outputs, "n", **attributes)],
        {name: (np.float32, dims) for name, dims in inputs.items()},
        dict.fromkeys(outputs),
        arrays,
        imports=(("", 18),),
    )
    onnx.save(model, tmp_path / "m.onnx")
    own = type(type_, (Plugin,), {"op_type": type_, "package": "Fast"})
    op = xdlc.convert(tmp_path / "m.onnx", plugin=[own], no_plugins=True).main.ops[0]
    assert (op.package, [tensor.shape for tensor in op.outputs]) == ("Fast", shapes)
    assert all(tensor.dtype is FLOAT32 for tensor in op.outputs)


def test_every_operator_of_onnx_can_be_overridden_or_is_refused():
    types = {held.name for held in onnx.defs.get_all_schemas() if held.domain == ""}
    refused, defined = {}, []
    for type_ in sorted(types):
        own = type(type_, (Plugin,), {"op_type": type_, "package": "Fast", "__module__": "none"})
        try:
            defined.append(of_class(own).definition)
        except (UsageError, ModelError) as error:
            refused[type_] = error.problem
    held = Collection("Fast", "", "1.0", tuple(defined), ())
    assert parse_collection(write_collection(held).encode(), "x") == held
    assert len(types) - len(refused) > 170
    for problem in refused.values():
        assert (
            "no data type that tensors support" in problem or "has no input" in problem or "Loop" in problem
        )


def test_an_override_of_an_operator_with_graphs():
    class OwnIf(Plugin):
        op_type = "If"
        package = "Fast"

    with pytest.raises(UsageError, match=r"'then_branch'.*cannot be parameters"):
        of_class(OwnIf).parse_params(node(type="If", domain="", then_branch=object()))


# ---------------------------------------------------------------------- configurations

XML = """<?xml version="1.0" encoding="UTF-8"?>
<OpDefCollection PackageName="Pack" Domain="x" Version="1.0">
  <OpDefList>
    <OpDef>
      <Name>Mine</Name>
      <Description><Content>From XML.</Content></Description>
      <Input><Name>x</Name><Mandatory>true</Mandatory><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
        <Shape><Rank>4D</Rank><Layout>NHWC</Layout></Shape></Input>
      <Output><Name>y</Name><Mandatory>true</Mandatory><Datatype>QNN_DATATYPE_FLOAT_32</Datatype>
        <Shape><Rank>4D</Rank></Shape></Output>
      <Parameter><Name>mode</Name><Mandatory>false</Mandatory><Datatype>QNN_DATATYPE_UINT_32</Datatype>
        <Shape><Rank>SCALAR</Rank></Shape><Default>B</Default><Enumeration><Enum>A</Enum><Enum>B</Enum></Enumeration></Parameter>
      <Parameter><Name>axes</Name><Mandatory>true</Mandatory><Datatype>QNN_DATATYPE_UINT_32</Datatype>
        <Shape><Rank>1D</Rank></Shape></Parameter>
      <SupportedBackend>CPU</SupportedBackend>
    </OpDef>
  </OpDefList>
</OpDefCollection>
"""


def test_the_definition_may_come_from_a_configuration(tmp_path):
    (tmp_path / "mine.xml").write_text(XML)
    op = op_of(
        tmp_path, 'class Mine(Plugin):\n    op_type = "Mine"\n    package = "Pack"\n    config = "mine.xml"\n'
    )
    assert op.definition.description[0].text == "From XML."
    assert op.definition.inputs[0].layout == "NHWC"
    found = params_of(op, node(axes=[1, 2]))
    assert found["mode"] == "B"
    assert list(found["axes"]) == [1, 2]


def test_a_configuration_without_the_op(tmp_path):
    (tmp_path / "mine.xml").write_text(XML)
    text = 'class Mine(Plugin):\n    op_type = "Other"\n    package = "Pack"\n    config = "mine.xml"\n'
    with pytest.raises(UsageError, match="has no Pack::Other") as caught:
        op_of(tmp_path, text)
    assert str(tmp_path / "mine.xml") in caught.value.where
    assert "Pack::Mine" in caught.value.fix
