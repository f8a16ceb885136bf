"""Each rule of the verifier: graphs that keep it, and graphs that break it."""

import numpy as np
import pytest

from xdlc import ir
from xdlc.errors import UsageError
from xdlc.ir import dtype as dt
from xdlc.opdefs.verify import verify_arity, verify_graph


def build(text):
    return ir.parse("graph g {\n" + text + "\n}").main


def problems(text, backend=None):
    return [error.problem for error in verify_graph(build(text), backend=backend)]


CONV = """
  input %x {act}[1,8,8,3]{qx}
  static %w {weight}[3,3,3,4]{qw} = sha256:0
  static %b {bias}[4]{qw} = sha256:0
  conv = Conv2d(%x, %w, %b) {{stride=uint32[2] = [1, 1], pad_amount=uint32[2,2] = [1, 1, 1, 1]}} RESULT
  return %y""".replace("RESULT", "-> %y {act}[1,8,8,4]{qx}")
FLOAT_CONV = CONV.format(act="float32", weight="float32", bias="float32", qx="", qw="")
QUANT = {"qx": " per_tensor(scale=0.1)", "qw": " per_tensor(scale=0.1)"}
QUANT_CONV = CONV.format(act="ufixed8", weight="sfixed8", bias="sfixed32", **QUANT)


def edited(text, *pairs):
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("backend", [None, "cpu", "gpu", "htp", "hta"])
def test_a_plain_convolution_passes(backend):
    float_problems = problems(FLOAT_CONV, backend)
    assert (float_problems == []) == (backend != "hta")
    assert problems(QUANT_CONV, backend if backend != "hta" else None) == []


@pytest.mark.parametrize(
    ("pairs", "problem"),
    [
        ([("Conv2d", "Conv2D")], "type: expected an operation of qti.aisw, found Conv2D"),
        ([("(%x, %w, %b)", "(%x)")], "input 'in[1]': expected a tensor, found nothing"),
        ([("(%x, %w, %b)", "(%x, %w, %b, %b)")], "inputs: expected at most 3, found 4"),
        ([("(%x, %w, %b)", "(%x, _, %b)")], "input 'in[1]': expected a tensor, found nothing"),
        ([("{stride=", "{strides=")], "parameter 'strides': expected one of stride"),
        ([("stride=uint32[2] = [1, 1], ", "")], "parameter 'stride': expected a value, found nothing"),
        (
            [("stride=uint32[2] = [1, 1]", "stride=int32[2] = [1, 1]")],
            "expected data type uint32, found int32",
        ),
        ([("stride=uint32[2] = [1, 1]", "stride=uint32 1")], "'stride': expected a tensor of rank 1"),
        ([("stride=uint32[2] = [1, 1]", "stride=uint32[3] = [1, 1, 1]")], "expected dimension 2 on axis 0"),
        ([("stride=uint32[2] = [1, 1]", "stride=uint32[1,2] = [1, 1]")], "found a tensor of rank 2"),
        ([("stride=uint32[2] = [1, 1]", "stride=uint32[2] = [0, 1]")], "expected > 0, found value is [0, 1]"),
        ([("stride=uint32[2] = [1, 1]", "stride=uint32[2]")], "'stride': expected static data, found none"),
        ([("[1,8,8,3]", "[8,8,3]")], "in[0] 'x': expected rank 4, found rank 3 [8, 8, 3]"),
        ([("float32[4] =", "float32[5] =")], "dimension 4 (channel_out, as in 'in[1]') on axis 0"),
        ([("-> %y float32[1,8,8,4]", "-> %y float32[1,4,8,8]")], "out[0] 'y': expected dimension 4"),
    ],
)
def test_a_convolution_that_breaks_a_rule(pairs, problem):
    found = problems(edited(FLOAT_CONV, *pairs))
    assert len(found) >= 1
    assert problem in found[0]


def test_messages_say_where_and_what_to_do():
    error = verify_graph(build(edited(FLOAT_CONV, ("{stride=", "{strides="))))[0]
    assert error.where == "graph 'g': op 'conv' (Conv2d)"
    assert error.fix == "nearest: stride"


GOOD = {
    "axis of the last dimension": "softmax = Softmax(%x) {axis=uint32 1} -> %y float32[2,3]",
    "optional parameters left out": "s = Softmax(%x) -> %y float32[2,3]",
    "several inputs": "c = Concat(%x, %x, %x) {axis=uint32 0} -> %y float32[6,3]",
    "several outputs": "s = Split(%x) {axis=uint32 0, split_index=uint32[1] = [1]} "
    "-> %a float32[1,3], %b float32[1,3]",
    "broadcast": "a = ElementWiseBinary(%x, %v) {operation=uint32 0} -> %y float32[2,3]",
    "comparison": "a = ElementWiseBinary(%x, %v) {operation=uint32 6} -> %y bool8[2,3]",
    "negative values without a rule": "c = ReluMinMax(%x) {min_value=float32 -1, max_value=float32 1} "
    "-> %y float32[2,3]",
    "float of another width": "r = Relu(%x) -> %y float16[2,3]",
    "reshape": "r = Reshape(%x) -> %y float32[3,2]",
    "rank by sum": "g = Gather(%x, %i) {axis=int32 0} -> %y float32[4,3]",
    "shape by rank": "p = Pad(%x) {scheme=uint32 0, pad_amount=uint32[2,2] = [0, 0, 1, 1]} -> %y "
    "float32[2,5]",
    "other package": "n = Nonsense@my.package(%x) {a=uint32 1} -> %y float32[9]",
    "trailing axes": "b = Batchnorm(%x, %v, %v) -> %y float32[2,3]",
    "unpublished parameters": "c = RotaryEmbedding(%x, %v, %v) {unknown=uint32 1} -> %y float32[2,3]",
}
BAD = {
    "axis too large": ("s = Softmax(%x) {axis=uint32 2} -> %y float32[2,3]", "found value is 2"),
    "negative axis": ("g = Gather(%x, %i) {axis=int32 -1} -> %y float32[2,4]", "found value is -1"),
    "axes too large": (
        "m = ReduceMean(%x) {axes=uint32[2] = [0, 2]} -> %y float32[3]",
        "found value is [0, 2]",
    ),
    "no input": ("c = Concat() -> %y float32[6,3]", "input 'in[0]': expected a tensor"),
    "rank of a repeated input": (
        "c = Concat(%v, %x) -> %y float32[6,3]",
        "out[0] 'y': expected rank = rank(in[0]), found rank is 2",
    ),
    "too many outputs": ("r = Relu(%x) -> %y float32[2,3], %z float32[2,3]", "outputs: expected at most 1"),
    "no output": ("r = Relu(%x)", "output 'out[0]': expected a tensor, found nothing"),
    "broadcast": ("a = ElementWiseAdd(%x, %i4) -> %y float32[2,3]", "[2, 3] and [4] do not broadcast"),
    "broadcast to a scalar": (
        "a = ElementWiseAdd(%x, %i4) -> %y float32[]",
        "[2, 3] and [4] do not broadcast",
    ),
    "broadcast result": ("a = ElementWiseAdd(%x, %v) -> %y float32[3]", "broadcast(in[0], in[1]) is [2, 3]"),
    "shape": ("r = Relu(%x) -> %y float32[3,2]", "found shape is [3, 2] and in[0] is [2, 3]"),
    "size": ("r = Reshape(%x) -> %y float32[3,3]", "found size is 9 and in[0] is 6"),
    "data type": ("r = Reshape(%x) -> %y float16[3,2]", "found datatype is float16 and in[0] is float32"),
    "kind of data type": ("r = Relu(%x) -> %y int32[2,3]", "found datatype is int32 and in[0] is float32"),
    "listed data types": (
        "s = Shape(%x) -> %y float32[2]",
        "out[0] 'y': expected data type uint32, found float32",
    ),
    "enumeration": ("n = ElementWiseNeuron(%x) {operation=uint32 9} -> %y float32[2,3]", "TANH 8, found 9"),
    "scalar": (
        "s = Softmax(%x) {axis=uint32[1] = [1]} -> %y float32[2,3]",
        "expected a scalar, found a tensor",
    ),
    "rank by sum": (
        "g = Gather(%x, %i) {axis=int32 0} -> %y float32[4]",
        "found rank is 1 and rank(in[0]) + rank(in[1]) - 1 is 2",
    ),
    "shape by rank": (
        "p = Pad(%x) {scheme=uint32 0, pad_amount=uint32[1,2] = [0, 0]} -> %y float32[2,3]",
        "expected dimension 2 (rank(in[0])) on axis 0, found shape [1, 2]",
    ),
    "trailing axes": ("b = Batchnorm(%x, %i4) -> %y float32[2,3]", "dimension 3 (channel, as in 'in[0]')"),
    "leading rank": ("r = Resize(%v) -> %y float32[3]", "expected [batch, .., channel], found shape [3]"),
    "rank 0": ("r = Relu(%s) -> %y float32[]", "expected rank >= 1, found rank is 0"),
    "range of numbers": (
        "n = DistributeFpnProposals(%p) {roi_min_level=uint32 1} -> %a int32[7], %b float32[7,5]",
        "expected in [2, 5], found value is 1",
    ),
}
FRAME = """
  input %x float32[2,3]
  input %v float32[3]
  input %s float32[]
  input %i int32[4]
  input %i4 float32[4]
  input %p float32[7,5]
"""


@pytest.mark.parametrize("case", GOOD)
def test_good_ops_pass(case):
    assert problems(FRAME + GOOD[case]) == []


@pytest.mark.parametrize("case", BAD)
def test_bad_ops_are_told(case):
    text, problem = BAD[case]
    found = problems(FRAME + text)
    assert any(problem in line for line in found), found


def test_outputs_hold_no_static_data():
    graph = ir.Graph("g")
    x = graph.add_input(ir.Tensor("x", (2,), dt.FLOAT32))
    y = ir.Tensor("y", (2,), dt.FLOAT32)
    graph.append(ir.make_op(graph, "Relu", [x], [y]))
    assert verify_graph(graph) == []
    y.data = ir.ArrayData(np.ones(2, np.float32))
    (error,) = verify_graph(graph)
    assert "expected a tensor that the op computes, found static data" in error.problem


def test_extents_known_only_at_run_time_are_not_compared():
    text = "input %x float32[1,3] dynamic=[0]\n r = Relu(%x) -> %y float32[8,3] dynamic=[0]"
    assert problems(text) == []
    text = "input %x float32[1,3] dynamic=[0]\n static %w float32[3] = [1, 1, 1]\n"
    assert problems(text + "b = Batchnorm(%x, %w) -> %y float32[8,3]") == []


def test_a_null_tensor_counts_as_left_out():
    text = FLOAT_CONV.replace("static %b float32[4] = sha256:0", "tensor %b undefined[0] role=null")
    assert problems(text) == []


@pytest.mark.parametrize(
    ("backend", "text", "problem"),
    [
        ("hta", "r = Transpose(%x) {perm=uint32[2] = [0, 1]} -> %y float32[2,3]", "operation that HTA has"),
        ("gpu", "r = NonZero(%x) -> %y int32[1,2]", "operation that GPU has"),
        (
            "htp",
            "r = Argmax(%x) {axis=uint32 0} -> %y uint32[3]",
            "HTP_FP16: out[0] 'y': expected data type int32",
        ),
    ],
)
def test_backends_refuse_what_they_do_not_have(backend, text, problem):
    assert problems(FRAME + text) == []
    assert any(problem in line for line in problems(FRAME + text, backend))


def test_htp_takes_quantized_and_float_rows_but_no_mixture():
    assert problems(QUANT_CONV, "htp") == []
    mixed = QUANT_CONV.replace("%w sfixed8", "%w float32")
    (problem,) = problems(mixed, "htp")
    assert problem == "HTP_INT8: in[1] 'w': expected data type sfixed8 or ufixed8, found float32"


def test_data_types_must_fit_together_in_one_row():
    text = "input %a {a}[2]\n input %b {b}[2]\n"
    text += "m = ElementWiseBinary(%a, %b) {{operation=uint32 0}} -> %y {a}[2]"
    assert problems(text.format(a="float16", b="float16"), "htp") == []
    assert problems(text.format(a="float32", b="float32"), "htp") == []
    mixed = text.format(a="float32", b="float16")
    assert problems(mixed) == []
    assert len(problems(mixed, "htp")) == 1


def test_hta_wants_batches_of_one_and_some_operations_only():
    relu = (
        "input %x ufixed8[{n},4,4,8] per_tensor(scale=0.1)\n"
        "r = ElementWiseNeuron(%x) {{operation=uint32 {op}}} -> %y ufixed8[{n},4,4,8] per_tensor(scale=0.1)"
    )
    assert problems(relu.format(n=1, op=4), "hta") == []
    assert any("extent(0) = 1, found" in line for line in problems(relu.format(n=2, op=4), "hta"))
    (line,) = problems(relu.format(n=1, op=0), "hta")
    assert "in {HARD_SWISH 3, RELU 4, RELU_MIN_MAX 5, SIGMOID 6, TANH 8}, found value is ELU" in line


def test_hta_joins_channels_only_and_not_too_many():
    text = (
        "input %x ufixed8[1,2,2,{m}] per_tensor(scale=0.1)\n"
        "input %y ufixed8[1,2,2,{n}] per_tensor(scale=0.1)\n"
        "c = Concat(%x, %y) {{axis=uint32 3}} -> %z ufixed8[1,2,2,{sum}] per_tensor(scale=0.1)"
    )
    for m, n in ((2048, 2048), (4064, 64), (4095, 1)):
        assert problems(text.format(m=m, n=n, sum=m + n), "hta") == []
    (line,) = problems(text.format(m=4096, n=1, sum=4097), "hta")
    assert "found extent(-1) is 4097; dim(inputs, -1) % 32 is [0, 1]" in line
    rows = text.replace("axis=uint32 3", "axis=uint32 1").replace("{sum}", "3").replace("2,2,3]", "4,2,3]")
    (line,) = problems(rows.format(m=3, n=3), "hta")
    assert "parameter 'axis': expected in [rank(in[0]) - 1, rank(in[0]) - 1], found value is 1" in line


def test_hta_takes_small_images_into_fully_connected_layers():
    text = (
        "input %x {type}[{shape}] per_tensor(scale=0.1)\n"
        "static %w {weight}[2,{size}] per_tensor(scale=0.1) = sha256:0\n"
        "f = FullyConnected(%x, %w) -> %y {type}[1,2] per_tensor(scale=0.1)"
    )

    def said(shape, type="ufixed8", weight="sfixed8"):
        size = 1
        for extent in shape:
            size *= extent
        written = ",".join(map(str, shape))
        return problems(text.format(shape=written, size=size, type=type, weight=weight), "hta")

    assert said((1, 2000)) == said((1, 1024, 32, 1)) == said((1, 3, 16, 2), "ufixed16", "ufixed8") == []
    assert any("extent(-2) <= 32, found" in line for line in said((1, 1, 33, 1)))
    assert any("extent(-2) <= 16, found" in line for line in said((1, 1, 17, 1), "ufixed16"))
    assert any("extent(-3) <= 1024, found" in line for line in said((1, 1025, 1, 1)))
    assert any("found sfixed16" in line for line in said((1, 8), weight="sfixed16"))


def test_an_unknown_backend_is_a_usage_error():
    with pytest.raises(UsageError, match="unknown backend"):
        verify_graph(build(FLOAT_CONV), backend="tpu")


@pytest.mark.corpus
def test_real_files_give_no_alarm(corpus):
    from xdlc.container import load
    from xdlc.errors import ContainerError

    seen = 0
    for path in sorted((corpus / "dlc").rglob("*.dlc")):
        try:
            model = load(path)
        except ContainerError:
            continue  # refused files are another test's matter
        for graph in model.graphs.values():
            seen += 1
            assert [str(error) for error in verify_graph(graph)] == [], path.name
    assert seen


def test_texts_are_no_numbers_to_passes():
    graph = build(FRAME + "s = Softmax(%x) {beta=float32 1.0} -> %y float32[2,3]\nreturn %y")
    assert verify_arity(graph) == []
    graph.ops[0].params["beta"] = ir.string("1.0")
    (problem,) = verify_arity(graph)
    assert "parameter 'beta': expected data type float32, found string" in problem.problem
