"""UDOs keep to their definitions, constraints that are expressions included."""

from dataclasses import replace

import numpy as np
import pytest

from tests.opdefs.user_configs import BLEND
from xdlc import ir
from xdlc.ir import dtype as dt
from xdlc.ir.graph import Op
from xdlc.ir.tensor import Scalar, Tensor, b8, f32, i32, static, string, u32, u32s
from xdlc.opdefs.constraint_eval import MAX_STEPS, EvalBudget, spend
from xdlc.opdefs.lint import notices, rule_report
from xdlc.opdefs.model import (
    Collection,
    Constraint,
    OpDef,
    ParamDef,
    SupplementOp,
    SupplementTable,
    SupplementTensor,
    TensorDef,
)
from xdlc.opdefs.op_verifier import OpVerifier
from xdlc.opdefs.verify import UdoVerifier, verify_udos
from xdlc.opdefs.xml_reader import collection_lines, parse_collection


def rules(*pairs):
    return tuple(Constraint(str(i), type, text) for i, (type, text) in enumerate(pairs))


def definition(constraints=(), *, on="x", **more):
    """Return an op with constraints on one of its tensors."""

    def at(name):
        return {"constraints": rules(*constraints) if name == on else (), **more.get(name, {})}

    inputs = (
        TensorDef("x", True, (dt.FLOAT32, dt.UFIXED8), None, "[N, K]", **at("x")),
        TensorDef("weight", True, (dt.FLOAT32,), 2, "[K, M]", is_static=True, **at("weight")),
        TensorDef("bias", False, (), 1, "[M]", **at("bias")),
        TensorDef("rest", False, (dt.FLOAT32,), None, repeated=True, **at("rest")),
    )
    params = [
        ParamDef("axis", False, (dt.INT32,), 0, **at("axis")),
        ParamDef("mode", False, (dt.UINT32,), 0, enumeration=("ADD", "SUB", "MUL"), **at("mode")),
        ParamDef("pads", False, (dt.UINT32,), 1, "[rank(x) * 2]", **at("pads")),
        ParamDef("gain", False, (dt.FLOAT32,), 0, **at("gain")),
        ParamDef("label", False, (dt.STRING,), 0, **at("label")),
        ParamDef("flag", False, (dt.BOOL8,), 0, **at("flag")),
    ]
    outputs = (TensorDef("y", True, (dt.FLOAT32,), None, "[N, M]", **at("y")),)
    return OpDef("Mix", "Pkg", inputs, outputs, {param.name: param for param in params})


def op(x=(2, 3), y=(2, 4), *, bias=None, rest=(), dtype=dt.FLOAT32, outputs=None, inputs=None, **params):
    weight = static("w", np.arange(12, dtype=np.float32).reshape(3, 4))
    given = [Tensor("a", x, dtype), weight, bias and Tensor("b", bias, dt.FLOAT32)]
    given += [None if shape is None else Tensor(f"r{i}", shape, dt.FLOAT32) for i, shape in enumerate(rest)]
    made = [Tensor("out", y, dt.FLOAT32)] if outputs is None else outputs
    return Op("Mix", given if inputs is None else inputs, made, params, name="node", package="Pkg")


def problems(op_, definition_):
    return list(UdoVerifier(definition_).problems(op_))


def breaches(op_, definition_):
    return [str(problem) for problem in problems(op_, definition_)]


ALL = {
    "axis": i32(-1),
    "mode": u32(1),
    "pads": u32s([0, 1, 2, 3]),
    "gain": f32(0.5),
    "label": string("a"),
    "flag": b8(True),
}


@pytest.mark.parametrize(
    "made",
    [
        op(),
        op(**ALL),
        op(bias=(4,), rest=((1,), (2, 2))),
        op(rest=((1,),)),
        op(dtype=dt.UFIXED8),
        op(inputs=op().inputs[:2]),
    ],
)
def test_sound_ops(made):
    assert breaches(made, definition()) == []


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (op(inputs=[op().inputs[0]]), "input 'weight': expected a tensor, found nothing"),
        (op(inputs=[None, *op().inputs[1:]]), "input 'x': expected a tensor, found nothing"),
        (op(outputs=[]), "output 'y': expected a tensor, found nothing"),
        (op(outputs=[*op().outputs, *op().outputs]), "outputs: expected at most 1, found 2"),
        (op(dtype=dt.INT32), "input 'x' (a): expected data type float32 or ufixed8, found int32"),
        (op(bias=(4, 1)), "input 'bias' (b): expected rank 1, found rank 2 [4, 1]"),
        (op(axis=u32(1)), "parameter 'axis': expected data type int32, found uint32"),
        (op(axis=u32s([1])), "parameter 'axis': expected a scalar, found a tensor of rank 1"),
        (op(pads=u32(1)), "parameter 'pads': expected a tensor of rank 1, found a scalar"),
        (op(mode=u32(3)), "parameter 'mode': expected one of ADD 0, SUB 1, MUL 2, found 3"),
        (
            op(axes=u32(3)),
            "parameter 'axes': expected one of axis, mode, pads, gain, label, flag, found an unknown name",
        ),
        (
            op(y=(2, 5)),
            "output 'y' (out): expected dimension 4 (M, as in 'weight') on axis 1, found shape [2, 5]",
        ),
        (
            op(x=(2, 4)),
            "input 'weight' (w): expected dimension 4 (K, as in 'x') on axis 0, found shape [3, 4]",
        ),
        (
            op(pads=u32s([1, 2])),
            "parameter 'pads': expected dimension 4 (rank(x) * 2) on axis 0, found shape [2]",
        ),
    ],
)
def test_each_breach_is_breaches(made, problem):
    found = breaches(made, definition())
    assert any(problem in text for text in found), found
    assert len(found) == 1


def test_a_mandatory_parameter_is_missed():
    from dataclasses import replace

    made = definition()
    made.params["gain"] = replace(made.params["gain"], mandatory=True)
    assert breaches(op(), made) == ["parameter 'gain': expected a value, found nothing"]


HOLD = [
    ("x", "Shape", "rank >= 1"),
    ("x", "Shape", "rank = 2"),
    ("x", "Shape", "rank(x) == rank(weight) and rank of y = 2"),
    ("x", "Shape", "shape(in[0])[1] == shape(weight)[0]"),
    ("x", "Shape", "in[0].dim[1] == weight.shape[0]"),
    ("x", "Shape", "extent(-1) <= 3"),
    ("x", "Shape", "size of x <= 6"),
    ("x", "Shape", "N % 2 == 0 or K == 7"),
    ("y", "Shape", "shape = [N, M]"),
    ("y", "Datatype", "datatype(out[0]) == datatype(in[0])"),
    ("y", "Datatype", "= in[0]"),
    ("y", "Datatype", "datatype in {FLOAT_32, QNN_DATATYPE_FLOAT_16}"),
    ("y", "Datatype", "datatype like in[1]"),
    ("x", "Number", "Number of inputs >= 1"),
    ("x", "Number", "number of inputs == 3 and number of outputs == 1"),
    ("rest", "Number", ">= 1"),
    ("rest", "Shape", "rank == 1"),
    ("rest", "Shape", "rest[0].rank == 1"),
    ("rest", "Shape", "shape(rest) == [5]"),
    ("axis", "Value", "axis >= -rank(in[0])"),
    ("axis", "Value", "in [-2, 1]"),
    ("axis", "Value", "-rank(in[0]) <= axis < rank(in[0])"),
    ("axis", "", "value != 0"),
    ("mode", "Value", "mode == SUB"),
    ("mode", "Value", "mode == 1"),
    ("mode", "Value", "mode in {ADD, SUB}"),
    ("mode", "Value", 'value != "MUL"'),
    ("pads", "Value", "value >= 0"),
    ("pads", "Value", "pads < 4 and pads[0] == 0"),
    ("pads", "Value", "size == 4 and shape == [4]"),
    ("gain", "Value", "> 0"),
    ("gain", "Value", "0 < gain <= 1"),
    ("label", "Value", "label == 'a'"),
    ("flag", "Value", "flag == 1 or mode == ADD"),
    ("weight", "Value", ">= 0"),
    ("weight", "Value", "value <= 11"),
    ("bias", "Shape", "rank == 7"),  # left out: nothing to be said
    ("y", "Shape", "not rank == 3"),
    ("x", "Shape", "len(shape(x)) == 2 and x.dim[0] == 2 and x.rank == 2;"),
    ("y", "Shape", "size == in[1] or rank = in[0]"),
    ("x", "Shape", "rank in (1, 2, 3)"),
    ("axis", "Value", "axis in [-rank(in[0]), rank(in[0]))"),
    ("axis", "Value", "axis ∈ {-1, 1}"),
    ("pads", "Value", "sum(pads) == 6 and len(pads) == 4"),
    ("rest", "Number", "len(rest) == 1"),
    ("flag", "Value", "flag == true"),
    ("gain", "Value", "gain in (0.6, 1)"),  # two values, or what lies between?
    ("y", "Datatype", "datatype in {FIXED_8, FIXED_16}"),  # what is real may be quantized yet
    ("y", "Shape", "shape(y)[5] == 1"),
    ("y", "Description", "rank == 7"),
    ("y", "Shape", "rank == seven"),
    ("y", "Shape", "7"),
]


@pytest.mark.parametrize(("on", "type", "text"), HOLD)
def test_constraints_that_hold_or_are_words(on, type, text):
    assert breaches(op(rest=((5,),), **ALL), definition([(type, text)], on=on)) == []


BROKEN = [
    ("x", "Shape", "rank >= 3", "rank is 2"),
    ("x", "Shape", "rank(x) == rank(weight) + 1", "rank(x) is 2 and rank(weight) + 1 is 3"),
    ("x", "Shape", "shape(in[0])[0] == shape(weight)[0]", "shape(in[0])[0] is 2 and shape(weight)[0] is 3"),
    ("x", "Shape", "extent(0) = 1", "extent(0) is 2"),
    ("x", "Shape", "N % 2 == 1", "N % 2 is 0"),
    ("x", "Shape", "rank == 1 or rank == 3", "rank is 2"),
    ("y", "Shape", "shape = in[0]", "shape is [2, 4] and in[0] is [2, 3]"),
    ("y", "Shape", "K / 2 == 1", "K / 2 is 3/2"),
    ("y", "Datatype", "datatype == INT_32", "datatype is float32 and INT_32 is int32"),
    ("y", "Datatype", "datatype in {INT_32, INT_64}", "datatype is float32"),
    ("x", "Number", "Number of inputs >= 5", "Number of inputs is 3"),
    ("rest", "Number", ">= 3", "number is 2"),
    ("rest", "Shape", "rank == 1", "rank is [1, 2]"),
    ("axis", "Value", "0 <= axis < rank(in[0])", "axis is -1"),
    ("axis", "Value", "in [0, rank(in[0]) - 1]", "value is -1"),
    ("mode", "Value", "mode in {ADD, 2}", "mode is SUB"),
    ("mode", "Value", "value == MUL", "value is SUB and MUL is MUL"),
    ("pads", "Value", "value > 0", "value is [0, 1, 2, 3]"),
    ("gain", "Value", "gain >= 1", "gain is 0.5"),
    ("label", "Value", "label == 'b'", "label is a"),
    ("weight", "Value", "> 0", "value is [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]"),
    ("y", "Shape", "not rank == 2", "rank == 2 holds"),
    ("y", "Shape", "size = in[0]", "size is 8 and in[0] is 6"),
    ("y", "Shape", "shape = broadcast(x, [2, 5])", "shape is [2, 4] and broadcast(x, [2, 5]) is no shape"),
    ("x", "Shape", "dim(inputs, -1) % 3 == 0", "dim(inputs, -1) % 3 is [0, 1, 2]"),
    ("axis", "Value", "axis in (-1, 1]", "axis is -1"),
    ("pads", "Value", "prod(pads) > 0", "prod(pads) is 0"),
    ("flag", "Value", "flag == False", "flag is True and False is False"),
]


@pytest.mark.parametrize(("on", "type", "text", "found"), BROKEN)
def test_constraints_that_are_broken_tell_what_was_found(on, type, text, found):
    made = op(rest=((5,), (5, 5))[: 1 if "inputs" in text else 2], **ALL)
    (problem,) = problems(made, definition([(type, text)], on=on))
    assert (problem.expected, problem.rule) == (text, text)
    assert problem.found.startswith(found)
    assert problem.subject.endswith(f"{on!r}")


SENTENCES = [
    ("x", "Shape", "Rank must be 2"),
    ("x", "Shape", "K must be a multiple of 3"),
    ("y", "Shape", "rank of y must equal rank of x."),
    ("y", "Shape", "must have the same rank as in[0]"),
    ("y", "Datatype", "same data type as in[0]"),
    ("y", "Datatype", "in[0] must have the same type as out[0]"),
    ("axis", "Value", "is in range (-2, 0]"),
    ("axis", "Value", "must not be 0"),
    ("axis", "Value", "must be at least -1"),
    ("pads", "Value", "values are non-negative"),
    ("mode", "Value", "one of ADD, SUB"),
    ("gain", "Value", "alpha between 0 and 1"),
    ("gain", "Value", "between 0 and 1"),
    ("x", "Shape", "must be at least 7"),
    ("gain", "Value", "must be large"),
    ("gain", "Value", "only values that are positive"),
    ("gain", "Value", "must be positive unless flag is set"),
    ("axis", "Value", "positive or zero"),
    ("axis", "Value", "must be -1 or 2"),
    ("y", "Datatype", "must be FLOAT_32 or FLOAT_16"),
    ("y", "Shape", "must be of rank 7"),
    ("x", "Shape", "rank must be > 3"),
    ("x", "Shape", "K is divisible by 2"),
    ("y", "Shape", "same shape as in[0]"),
    ("y", "Shape", "size must be the same as in[0]"),
    ("axis", "Value", "value must be positive"),
    ("axis", "Value", "one of {0, 1}"),
    ("pads", "Value", "must be even"),
    ("y", "Datatype", "must be INT_32 or FLOAT_16"),
    ("gain", "Value", "greater than or equal to 1"),
]


@pytest.mark.parametrize(("on", "type", "text"), SENTENCES)
def test_sentences_are_documentation_with_a_notice_if_they_look_like_a_rule(on, type, text):
    held = definition([(type, text)], on=on)
    assert breaches(op(rest=((5,),), **ALL), held) == []
    remarks = notices(Collection("Pkg", "", "1.0", (replace(held, backends=("CPU",)),), ()))
    (remark,) = [remark for remark in remarks if "does not enforce" in remark]
    assert repr(on) in remark


def test_documentation_that_looks_like_no_rule_has_no_notice():
    held = definition([("Shape", "as wide as x"), ("Description", "rank must be 7"), ("Value", "")])
    assert notices(Collection("Pkg", "", "1.0", (replace(held, backends=("CPU",)),), ())) == []


def test_open_extents_decide_nothing():
    opened = op()
    opened.inputs[0].dynamic_axes = (0,)
    opened.outputs[0].dynamic_axes = (0,)
    held = definition([("Shape", "shape(x)[0] == 99"), ("Shape", "shape(x) == [1, 3]")])
    assert breaches(opened, held) == []
    held = definition([("Shape", "shape(x) == [1, 4]"), ("Shape", "size(x) == 99")])
    assert breaches(opened, held) == ["input 'x': expected shape(x) == [1, 4], found shape(x) is [?, 3]"]


def test_ops_of_a_model_are_told_with_their_graph():
    from xdlc.errors import ConstraintError

    graph = ir.Graph("main")
    made = op(axis=i32(-1))
    graph.append(made)
    model = ir.Model({"main": graph})
    held = definition([("Value", "axis >= 0")], on="axis")
    held_key = (held.package, held.name)
    (problem,) = verify_udos(model, [held])
    assert isinstance(problem, ConstraintError)
    assert problem.where == "graph 'main': op 'node' (Mix of Pkg)"
    assert problem.problem == "parameter 'axis': expected axis >= 0, found axis is -1 (constraint '0')"
    (problem,) = verify_udos(
        model,
        [definition([("Value", "axis >= 0 and axis < 2")], on="axis")],
        lines={held_key: {(): "ops.xml:3"}},
    )
    assert problem.problem.endswith("(constraint '0' 'axis >= 0 and axis < 2' in ops.xml:3)")
    assert verify_udos(model, []) == []


def test_rules_say_which_are_words_and_which_name_something_unknown():
    held = definition([("Shape", "rank > 1"), ("Shape", "as wide as x"), ("Shape", "rank > depth")])
    (x, *_) = held.inputs
    assert [(rule.node is not None, rule.reason) for rule in OpVerifier(held).rules(x)] == [
        (True, ""),
        (False, ""),
        (False, "'depth' is not a name of the op"),
    ]


def test_places_beyond_the_definition_mean_nothing():
    held = definition([("Shape", "rank(out[1]) == 2"), ("Shape", "rank(in[7]) == 2")])
    assert [rule.reason for rule in OpVerifier(held).rules(held.inputs[0])] == [
        "'out[1]' is not a name of the op",
        "",
    ]


@pytest.mark.parametrize(
    ("type", "text", "found"),
    [
        ("Shape", "weight == 3", "weight is 2"),
        ("Value", "weight % 2 == 1", "weight % 2 is 0"),
        ("Value", "weight > K", "weight is 2 and K is 3"),
        ("Value", "weight == shape(x)[1]", "weight is 2 and shape(x)[1] is 3"),
        ("Value", "weight in {K, 4}", "weight is 2"),
        ("Shape", "shape(x) == shape(weight)", "shape(x) is [2, 3] and shape(weight) is [3, 4]"),
        ("Shape", "weight == [weight, 4]", "weight is [3, 4]"),
        ("Datatype", "weight == INT_32", "weight is float32 and INT_32 is int32"),
        ("Value", "weight[0][0] == 5", "weight[0][0] is 0"),
        ("Value", "weight > 2", "weight is 2"),
    ],
)
def test_a_dimension_and_a_tensor_of_one_name_are_distinct(type, text, found):
    held = definition([(type, text)])
    (problem,) = problems(op(), replace(held, inputs=(rename(held), *held.inputs[1:])))
    assert problem.found == found


def rename(held):
    return replace(held.inputs[0], text="[weight, K]")


def test_the_own_name_of_a_value_constraint_is_the_tensor():
    held = definition([("Value", "weight > 2")], on="weight")
    (problem,) = problems(op(), replace(held, inputs=(rename(held), *held.inputs[1:])))
    assert problem.found.startswith("weight is [[0, 1")


def test_scalars_of_each_kind_are_compared():
    held = definition([("Value", "flag == 0")], on="flag")
    (problem,) = problems(op(flag=Scalar(dt.BOOL8, True)), held)
    assert problem.found == "flag is True"


def test_rules_that_look_at_too_many_numbers_are_told_and_the_rest_is_not_asked(monkeypatch):
    monkeypatch.setattr("xdlc.opdefs.op_verifier.EvalBudget", lambda: EvalBudget(50))
    cheap, dear, wrong = (
        ("Value", "value < 100"),
        ("Value", "value < 20 or value in {3, 4}"),
        ("Value", "value > 99"),
    )
    assert breaches(op(**ALL), definition([cheap], on="weight")) == []
    assert breaches(op(**ALL), definition([cheap, dear, wrong], on="weight")) == [
        f"input 'weight': expected constraints that read {MAX_STEPS} numbers in all, found more"
    ]
    spend(1000)  # outside of rules there is no bound


def test_each_constraint_is_told_with_its_line():
    text = BLEND.replace("&gt; 0", "gain &lt; top").replace("rank = 4<", "of a modest rank<")
    data = text.encode()
    report = rule_report(parse_collection(data, "f.xml"), collection_lines(data, "f.xml"))
    told = {
        "rank(in[0]) = 4": "input 'in[0]': enforced",
        "gain &lt; top": "parameter 'gain': documentation only, because 'top' is not a name of the op",
        "of a modest rank": "input 'in[0]' for HTP: documentation",
        "shape(in[0])[0] = 1": "input 'in[0]' for HTP: enforced",
    }
    assert report == [
        f"f.xml:{text.count(chr(10), 0, text.index(rule)) + 1}: op 'Blend': {verdict}: "
        f"{rule.replace('&lt;', '<')}"
        for rule, verdict in told.items()
    ]
    without_lines = rule_report(parse_collection(data, "f.xml"))
    assert without_lines[0] == "op 'Blend': input 'in[0]': enforced: rank(in[0]) = 4"


BASE = definition([("Shape", "rank <= 2")])


def package(backend, *rules, only_default=False):
    """Return Mix for CPU and another backend with rules of its own."""
    axis = replace(BASE.params["axis"], default="0")
    opdef = replace(BASE, backends=("CPU", backend), params={**BASE.params, "axis": axis})
    x = SupplementTensor("x", (), tuple(rules))
    params = {"axis": SupplementTensor("axis", (), only_default=True)} if only_default else {}
    row = SupplementOp("Mix", {"x": x}, {}, params)
    tables = (SupplementTable(backend, frozenset(), {"Mix": (row,)}),)
    return opdef, Collection("Pkg", "", "1.0", (opdef,), tables)


NARROW, WIDE = Constraint("0", "Shape", "rank == 1"), Constraint("0", "Shape", "rank >= 1")


@pytest.mark.parametrize(
    ("rule", "shape", "problems", "notices"),
    [
        (NARROW, (2, 3), 0, ["HTP: input 'x': expected rank == 1, found rank is 2"]),
        (WIDE, (2, 3), 0, []),
        (
            Constraint("7", "Shape", "size == 5"),
            (2, 3),
            0,
            ["HTP: input 'x': expected size == 5, found size is 6"],
        ),
        (Constraint("0", "", "a matter of taste"), (2, 3), 0, []),
    ],
)
def test_a_backend_that_refuses_is_a_notice(rule, shape, problems, notices):
    opdef, held = package("HTP", rule)
    verifier = UdoVerifier(opdef, held)
    assert len(list(verifier.problems(op(shape)))) == problems
    assert list(verifier.notices(op(shape))) == [
        f"op 'node' (Mix of Pkg) is not for {text}" for text in notices
    ]


def test_what_no_backend_takes_is_an_error():
    opdef, collection = package("HTP", Constraint("0", "Shape", "rank == 3"))
    base = replace(opdef, inputs=(replace(opdef.inputs[0], constraints=(NARROW,)), *opdef.inputs[1:]))
    graph = ir.Graph("main")
    graph.append(op())
    problems = verify_udos(ir.Model({"main": graph}), [base], {"Pkg": collection})
    assert [str(problem.problem) for problem in problems] == [
        "input 'x': expected rank == 1 (for CPU), found rank is 2 (constraint '0')",
        "input 'x': expected rank == 3 (for HTP), found rank is 2 (constraint '0')",
    ]
    assert list(UdoVerifier(base, collection).notices(op())) == []


def test_a_backend_that_takes_the_default_alone():
    opdef, held = package("HTP", only_default=True)
    verifier = UdoVerifier(opdef, held)
    assert list(verifier.notices(op(axis=i32(0)))) == []
    (notice,) = verifier.notices(op(axis=i32(1)))
    assert notice.endswith("is not for HTP: parameter 'axis': expected only its default 0, found 1")


def test_without_constraints_of_backends_those_of_the_definition_count():
    for verifier in (UdoVerifier(*package("HTP")), UdoVerifier(BASE)):
        assert list(verifier.problems(op())) == []
        assert list(verifier.notices(op())) == []
        (problem, *_) = verifier.problems(op((1, 2, 3)))
        assert problem.rule == "rank <= 2" or problem.rule == "shape"
