"""The text form: what is printed parses back."""

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.differences import differences
from xdlc import ir
from xdlc.errors import ModelError
from xdlc.ir import dtype as dt
from xdlc.ir.literals import data_shape

names = st.text(st.sampled_from('ab1_./:- "\\%\né€'), min_size=0, max_size=6)
dims = st.integers(0, 4)
int32s = st.integers(-(2**31), 2**31 - 1)
singles = st.floats(width=32)
data_types = st.sampled_from([t for t in dt.BY_NAME.values() if t.kind not in ("string", "undefined")])


@st.composite
def data_of(draw, dtype, shape):
    stored_shape = data_shape(dtype, shape)
    stored = dtype.numpy
    count = math.prod(stored_shape) * stored.itemsize
    content = draw(st.binary(min_size=count, max_size=count))
    if dtype.kind == "bool":
        content = bytes(byte & 1 for byte in content)
    return ir.ArrayData(np.frombuffer(content, stored).reshape(stored_shape))


@st.composite
def encodings(draw):
    count = draw(st.integers(1, 4))
    scales = tuple(draw(singles) for _ in range(count))
    offsets = tuple(draw(int32s) for _ in range(count))
    bits = draw(st.none() | st.integers(1, 16))
    axis = draw(st.integers(0, 4))
    return draw(
        st.sampled_from(
            [
                None,
                ir.ScaleOffset(scales[0], offsets[0], bits),
                ir.AxisScaleOffset(axis, scales, offsets, bits),
                ir.AxisScaleOffset(axis, scales),
                ir.BlockScaleOffset((1, count), scales, offsets, bits),
                ir.BlockwiseExpansion(axis, scales, offsets, 2, 4, (3,) * 2 * count, True),
                ir.VectorCode(axis, (0.1, *scales), (0, *offsets), (1, 2, 3)),
            ]
        )
    )


@st.composite
def tensors(draw, name, *, static=False, role=None):
    shape = tuple(draw(st.lists(dims, max_size=3)))
    dtype = draw(data_types)
    tensor = ir.Tensor(name, shape, dtype, draw(encodings()))
    tensor.dynamic_axes = tuple(draw(st.lists(st.integers(0, 3), max_size=2)))
    if static:
        tensor.data = draw(data_of(dtype, shape))
        tensor.role = ir.Role.STATIC
    if role is not None:
        tensor.role = role
    return tensor


@st.composite
def scalars(draw):
    return draw(
        st.one_of(
            st.builds(ir.u32, st.integers(0, 2**32 - 1)),
            st.builds(ir.i32, int32s),
            st.builds(ir.f32, singles),
            st.builds(ir.b8, st.booleans()),
            st.builds(ir.string, st.text(max_size=8)),
            st.builds(lambda v: ir.Scalar(dt.FLOAT64, v), st.floats()),
        )
    )


@st.composite
def graphs(draw, name):
    graph = ir.Graph(name)
    fresh = iter([f"{draw(names)}#{i}" for i in range(40)])
    pool = [graph.add_input(draw(tensors(next(fresh)))) for _ in range(draw(st.integers(0, 2)))]
    pool += [
        graph.add_tensor(draw(tensors(next(fresh), static=True))) for _ in range(draw(st.integers(0, 2)))
    ]
    if draw(st.booleans()):
        graph.add_tensor(draw(tensors(next(fresh), role=ir.Role.NULL)))
    for _ in range(draw(st.integers(0, 3))):
        outputs = [draw(tensors(next(fresh))) for _ in range(draw(st.integers(0, 2)))]
        params = {}
        for _ in range(draw(st.integers(0, 2))):
            key = next(fresh)
            params[key] = draw(st.one_of(scalars(), tensors(next(fresh), static=True)))
        op = ir.Op(
            draw(names),
            [draw(st.sampled_from([None, *pool])) for _ in range(draw(st.integers(0, 3)))],
            outputs,
            params,
            name=next(fresh),
            package=draw(st.sampled_from(["qti.aisw", "xdlc", "my package"])),
            origin=ir.Origin(tuple(draw(st.lists(names, max_size=2))), draw(st.none() | names)),
        )
        graph.append(op)
        pool += outputs
    for tensor in pool:
        if tensor.producer is not None and draw(st.booleans()):
            graph.add_output(tensor)
    return graph


@st.composite
def models(draw):
    model = ir.Model()
    for name in draw(st.lists(names, unique=True, max_size=2)):
        model.add_graph(draw(graphs(name)))
    json_values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=4,
    )
    model.metadata = draw(st.dictionaries(st.text(max_size=3), json_values, max_size=2))
    for name in draw(st.lists(names, unique=True, max_size=2)):
        model.records[name] = ir.raw_data(draw(st.binary(max_size=6)))
    return model


@settings(max_examples=60, deadline=None)
@given(models())
def test_inline_text_parses_back_to_the_same_model(model):
    text = ir.to_text(model, data="inline")
    again = ir.parse(text)
    assert differences(again, model) == []
    assert ir.to_text(again, data="inline") == text


def linear():
    graph = ir.Graph("main")
    x = graph.add_input(ir.Tensor("x", (1, 8), dt.FLOAT32))
    w = ir.static("w", np.arange(80, dtype=np.float32).reshape(10, 8))
    y = ir.Tensor("y", (1, 10), dt.FLOAT32)
    op = ir.make_op(
        graph,
        "FullyConnected",
        [x, w, None],
        [y],
        {"keep_dims": ir.b8(False)},
        name="fc",
        origin=ir.Origin(("Gemm_0",)),
    )
    graph.append(op)
    graph.add_output(y)
    return graph


def test_large_data_is_elided_and_its_use_is_an_error():
    graph = linear()
    text = ir.to_text(graph)
    digest = hashlib.sha256(graph.tensors["w"].numpy().tobytes()).hexdigest()
    assert text == (
        "graph main {\n"
        "  input %x float32[1,8]\n"
        f"  static %w float32[10,8] = sha256:{digest}\n"
        '  fc = FullyConnected(%x, %w, _) {keep_dims=bool8 false} -> %y float32[1,10] from "Gemm_0"\n'
        "  return %y\n"
        "}\n"
    )
    weight = ir.parse(text).main.tensors["w"]
    assert isinstance(weight.data, ir.Elided)
    assert ir.to_text(ir.parse(text)) == text
    with pytest.raises(ModelError, match="the text form omits"):
        weight.numpy()


def test_packed_nibbles_print_as_their_values():
    graph = ir.Graph("g")
    graph.add_tensor(ir.static("w", np.array([0x8F, 0x07], np.uint8)))
    packed = graph.tensors["w"]
    packed.dtype, packed.shape = dt.SFIXED4, (3,)
    assert "static %w sfixed4[3] = [-1, -8, 7]\n" in ir.to_text(graph)


def test_ops_before_their_inputs_still_print_and_parse():
    text = (
        "graph g {\n  b = Relu(%y) -> %z float32[1]\n"
        "  a = Relu(%x) -> %y float32[1]\n  input %x float32[1]\n}\n"
    )
    graph = ir.parse(text).main
    with pytest.raises(ModelError, match=r"'b' reads 'y', but no earlier op"):
        graph.verify()


@pytest.mark.parametrize(
    ("text", "where", "problem"),
    [
        ("graph g {", "line 1", "not closed"),
        ("nonsense", "line 1", "must begin with metadata, graph or record"),
        ("graph g {\n\n  a = Relu(%x)\n}", "line 3", "'x' is not declared"),
        ("graph g {\n return %x\n}", "line 2", "'x' is not declared"),
        ("graph g {\n input %x float23[1]\n}", "line 2", "unknown data type 'float23'"),
        ("graph g {\n input %x float32[-1]\n}", "line 2", "negative"),
        ("graph g {\n input %x float32[1]\n input %x float32[1]\n}", "line 3", "two tensors are named 'x'"),
        ("graph g {\n static %x uint8[2] = [1]\n}", "line 2", "2 numbers, but the text has 1"),
        ("graph g {\n static %x uint8[1] = [256]\n}", "line 2", "256 is outside the range 0 to 255"),
        ("graph g {\n static %x bool8[1] = [2]\n}", "line 2", "must be true or false"),
        ("graph g {\n static %x uint8[2] = hex:00\n}", "line 2", "needs 2 bytes of data, but has 1"),
        ("graph g {\n static %x uint8[1] = hex:zz\n}", "line 2", "hexadecimal data are not valid"),
        ("graph g {\n static %x uint8[1] = zip:00\n}", "line 2", "a number, hex: or sha256:"),
        ("graph g {\n static %x string[1] = sha256:0\n}", "line 2", "cannot hold data"),
        ("graph g {\n input %x uint8[1] per_axis(axis=0)\n}", "line 2", "per_axis lacks scales"),
        (
            "graph g {\n input %x uint8[1] per_tensor(scale=0.1, zero=1)\n}",
            "line 2",
            "per_tensor is not valid",
        ),
        ("graph g {\n input %x uint8[1] role=inputs\n}", "line 2", "unknown role"),
        ("graph g {\n a = Relu() {k=uint32 1, k=uint32 2}\n}", "line 2", "appears twice"),
        ("graph g {\n a = Relu() {k=uint32 x}\n}", "line 2", "'x' is not a valid value"),
        ("graph g {\n a = Relu()\n a = Relu()\n}", "line 3", "two ops are named 'a'"),
        ("graph g {\n input %x uint8[1]\n a = Relu() -> %x\n}", "line 3", "already has a source"),
        ("graph g {\n a = Relu() !\n}", "line 2", "unexpected character '!'"),
        ("graph g {\n a = Relu() b\n}", "line 2", "unexpected 'b'"),
        ("graph g {\n sth %x float32[1]\n}", "line 2", "an op, input, static"),
        ("metadata []", "line 1", "not a JSON object"),
        ("metadata {", "line 1", "not valid JSON"),
        ("record r x hex:", "line 1", "'x' is not a valid value"),
        ("record r 0 hex:\nrecord r 0 hex:", "line 2", "two records"),
        ("metadata " + '{"a":' * 100_000, "line 1", "not valid JSON"),
    ],
)
def test_errors_name_the_line(text, where, problem):
    with pytest.raises(ModelError) as caught:
        ir.parse(text)
    assert caught.value.where == where
    assert problem in caught.value.problem
