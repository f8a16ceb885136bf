"""Refusals by HTP: the rule, the value, the accepted value, and a way out."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.htp_models import needs_htp
from xdlc.errors import each_problem
from xdlc.ir import Graph, Op, Scalar, ScaleOffset, Tensor, b8, static, u32
from xdlc.ir import dtype as dt
from xdlc.runtime import htp
from xdlc.runtime.htp.unsupported_op import RefusedOp, problems_of
from xdlc.runtime.htp.validator_log import explain, missing_format

F32 = dt.FLOAT32


def unary(kind: str, shape: tuple[int, ...], dtype: dt.DType = F32, **params: Scalar | Tensor) -> Op:
    """Return an op from ``x`` to ``y``, both of a shape and a type."""
    encoding = ScaleOffset(0.1, -1000) if dtype.is_fixed else None
    x, y = (Tensor(name, shape, dtype, encoding) for name in "xy")
    return Op(kind, [x], [y], params, name="op")


def binary(kind: str, left: Tensor, right: Tensor, out: Tensor, **params: Scalar | Tensor) -> Op:
    return Op(kind, [left, right], [out], params, name="op")


def tensor(name: str, *shape: int, dtype: dt.DType = F32) -> Tensor:
    return Tensor(name, shape, dtype)


def wide(name: str) -> Tensor:
    """Return a square tensor of 16 bits whose encoding is not symmetric."""
    return Tensor(name, (1, 2, 4, 4), dt.UFIXED16, ScaleOffset(0.1, -1000))


OPERATION = {"operation": u32(0)}
WIDE = (1, 2, 2, 3)
# One wrong op each: the op, what the library logs (SDK 2.51), what is made of it.
CASES = [
    (
        unary("Softmax", WIDE, axis=u32(1)),
        "[4294967295] has incorrect Value 1, expected equal to 3.",
        "parameter 'axis' is 1, but Softmax of HTP accepts only 3",
        "insert Transposes around the op",
    ),
    (
        unary("Tile", (1, 1, 1, 2, 2, 3), multiples=static("times", np.ones(6, np.uint32))),
        "[4294967295] has incorrect Rank 6.",
        "input 0 ('x') or output 0 ('y') has rank 6, but Tile of HTP accepts at most rank 5",
        "insert a Reshape",
    ),
    (
        binary("MatMul", tensor("a", 3), tensor("b", 3, 4), tensor("y", 4)),
        "Input[0] has incorrect Rank 1.",
        "input 0 ('a') has rank 1, but MatMul of HTP accepts other ranks",
        "insert a Reshape",
    ),
    (
        binary("MatMul", *(wide(name) for name in "aby")),
        "[4294967295] has incorrect Value -1000, expected equal to -32768.",
        "the offset of input 0 ('a') or the offset of input 1 ('b') or "
        "the offset of output 0 ('y') is -1000, "
        "but MatMul of HTP accepts only -32768",
        "quantize this tensor symmetrically",
    ),
    (
        unary("Argmax", WIDE, axis=u32(7), keep_dims=b8(True)),
        "Param[0] has incorrect Value 7.",
        "parameter 'axis' is 7, but HTP accepts 0 to 3, because input 0 has rank 4",
        "change parameter 'axis'",
    ),
    (
        unary("ElementWiseUnary", WIDE, operation=u32(99)),
        "Param[0] has incorrect Value 99.",
        "parameter 'operation' is 99, but HTP accepts only 0 ABS, 1 ASIN",
        "change parameter 'operation'",
    ),
    (
        unary("Argmax", WIDE, keep_dims=b8(True)),
        "Received NULL for mandatory Param at index 0.",
        "parameter 'axis' is missing, but Argmax of HTP requires this",
        "give parameter 'axis' a value",
    ),
    (
        unary("Cast", WIDE, bogus=u32(1)),
        "Wrong number of Parameters 1.",
        "has the parameters bogus, but HTP accepts none; bogus unknown",
        "correct the op by its definition",
    ),
    (
        unary("ElementWiseUnary", WIDE),
        "Wrong number of Parameters 0.",
        "has no parameters, but HTP accepts operation; operation is missing",
        "correct the op by its definition",
    ),
    (
        unary("StridedSlice", (4,), ranges=static("ranges", np.array([0, 4, 1], "int32"))),
        "Param[0] has incorrect Rank 1.",
        "parameter 'ranges' has rank 1, but HTP accepts rank 2",
        "correct the op by its definition",
    ),
    (
        binary("ElementWiseUnary", tensor("a", 4), tensor("b", 4), tensor("y", 4), **OPERATION),
        "Wrong number of Inputs 2.",
        "has 2 inputs, but HTP accepts 1",
        "correct the op by its definition",
    ),
    (
        Op("ElementWiseUnary", [tensor("x", 4)], [tensor("y", 4, dtype=dt.FLOAT16)], OPERATION, name="op"),
        "Tensor 0 and 0 have mismatching datatypes. 0x232 != 0x216.",
        "input 0 ('x') is float32 and output 0 ('y') is float16, but ElementWiseUnary of HTP requires one",
        "cast one",
    ),
    (
        binary("ElementWiseBinary", tensor("a", 4), tensor("b", 4), tensor("y", 4), operation=u32(1)),
        "input[0] has incorrect Datatype 0x232 which is not supported by Logical Operations.",
        "input 0 ('a') is float32, but logical operations of HTP accept bool8",
        "cast the operand",
    ),
    (
        binary(
            "ElementWiseBinary", tensor("a", 2, 4), tensor("b", 2, 3), tensor("y", 2, 4), operation=u32(0)
        ),
        "Dimension at index 1 cannot be broadcast between in[0] (4) and in[1] (3).",
        "input 0 ('a') has 4 elements along axis 1 and input 1 ('b') 3, but HTP accepts equal numbers, or 1",
        "convert the model again",
    ),
    (
        binary(
            "ElementWiseBinary", tensor("a", 2, 4), tensor("b", 2, 4), tensor("y", 2, 5), operation=u32(0)
        ),
        "Out[0] has incorrect dimension at index 1. Expected 4 but got 5.",
        "output 0 ('y') has size 5 along axis 1, but the other operands require 4",
        "convert the model again",
    ),
]


@pytest.mark.parametrize(("op", "line", "reason", "fix"), CASES)
def test_lines_are_put_in_words(op: Op, line: str, reason: str, fix: str) -> None:
    problem, way_out = explain(op, 3110, ["Op specific validation failed.", line])
    assert problem.startswith(reason)
    assert problem.endswith(line)
    assert way_out.startswith(fix)


@needs_htp
@pytest.mark.vendor
def test_the_library_logs_the_recorded_lines() -> None:
    graph = Graph("g")
    sent = [case for case in CASES if "Parameters 0" not in case[1]]  # no DLC holds that op
    for index, (op, _, _, _) in enumerate(sent):
        twins: dict[Tensor, Tensor] = {}
        for tensor in (*op.inputs, *op.outputs):
            assert tensor is not None
            twins[tensor] = replace(tensor, name=f"{tensor.name}{index}")
        for tensor in op.inputs:
            assert tensor is not None
            graph.add_input(twins[tensor])
        graph.append(op.twin(twins.__getitem__, name=f"op{index}"))
    found = {each.op: each.problem for each in htp.unsupported_ops(graph, "sm8650")}
    for index, (_, line, reason, _) in enumerate(sent):
        assert line in found[f"op{index}"]
        assert found[f"op{index}"].startswith(reason.split("('")[0])


def test_without_a_reason_xdlcs_tables_count() -> None:
    op = unary("ElementWiseUnary", WIDE, dt.SFIXED8, **OPERATION)
    problem, _ = explain(op, 3110, ["Op specific validation failed."])
    assert problem.startswith(
        "HTP does not support this form of ElementWiseUnary ABS from sfixed8 to sfixed8 and logs no reason"
    )


@pytest.mark.parametrize(
    ("kind", "code", "log", "said"),
    [
        ("Erf", 4005, [], "HTP has no op Erf"),
        ("ReduceProd", 3110, ["OpValidator not found op."], "HTP has no op ReduceProd"),
        ("MatMul", 3110, ["[4294967295] has incorrect Value 69, expected >= 73."], "needs architecture v73"),
        ("X", 3110, ["QnnBackend_validateOpConfig failed 3110"], "logs no reason"),
        ("X", 3110, ["Tensor can only have static dimensions"], "dynamic dimensions"),
    ],
)
def test_what_hits_every_op_is_put_in_words(kind: str, code: int, log: list[str], said: str) -> None:
    assert said in explain(Op(kind, [], [], name="op"), code, log)[0]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("Something new 5", "HTP does not support the op; the library logs: Something new 5"),
        (
            "Stride expected dimension 2 but was 4.",
            "HTP does not support these shapes; the library logs: Stride expected dimension 2 but was 4.",
        ),
        (
            "Duplicate value in axes 1 at indices 1 and 0.",
            "HTP does not support these parameters; the library logs: Duplicate value in axes 1 at indices",
        ),
        ("[4294967295] has incorrect Rank 6.", "a tensor has rank 6, but Foo of HTP accepts at most rank 5"),
        ("Param[3] has incorrect Value 6.", "parameter 3 is 6, but HTP accepts other values"),
    ],
)
def test_unknown_lines_and_ops_are_shown_as_they_are(line: str, reason: str) -> None:
    problem, fix = explain(Op("Foo", [], [], name="op"), 3110, [line])
    assert problem.startswith(reason)
    assert line in problem
    assert fix


def test_one_error_reports_all_ops_that_need_fp16() -> None:
    ops = [RefusedOp("g", name, "Relu", "this SoC has no FP16", "quantize", "FP16") for name in "ab"]
    (problem,) = problems_of(ops, "m.dlc: sxr1230p")
    assert each_problem(problem) == (problem,)
    assert problem.problem == "this SoC has no FP16; 2 op(s) compute in FP16"
    assert problem.where == "m.dlc: sxr1230p: graph 'g': op 'a' (Relu) and others"


def test_the_format_that_a_soc_lacks_is_read_from_the_log() -> None:
    assert missing_format(["odd", "The SocModel doesn't support FP16"]) == "FP16"
    assert missing_format(["odd"]) is None


def test_dtype_refusal_lists_what_is_accepted_nearest_first() -> None:
    log = [
        "Unsupported input/output datatypes requested for the HTP Op 'Cast' in the node 'op'.",
        "Requested I/O datatype set:\n\n   in[0]:QNN_DATATYPE_INT_64\n   out[0]:QNN_DATATYPE_FLOAT_32",
        "Supported I/O datatype sets for the configuration: X\n   1:\n   in[0]:QNN_DATATYPE_UFIXED_POINT_8\n"
        "   out[0]:QNN_DATATYPE_BOOL_8\n   2:\n   in[0]:QNN_DATATYPE_INT_64\n   out[0]:QNN_DATATYPE_INT_32",
    ]
    problem, _ = explain(Op("Cast", [], [], name="op"), 3110, log)
    assert problem == (
        "HTP does not support the data types in[0]=int64 out[0]=float32; "
        "accepted: in[0]=int64 out[0]=int32; in[0]=ufixed8 out[0]=bool8"
    )
