"""Shape functions, against parameters, outputs and the lowered model."""

import numpy as np
import pytest

import xdlc
from tests.support.running import run
from tests.support.single_ops import op_graph
from xdlc.errors import ConstraintError
from xdlc.ir import Graph, Model, Tensor, b8, i32, make_op, static, u32
from xdlc.ir.dtype import FLOAT32, UINT32
from xdlc.opdefs.shapes import ShapeError, infer, verify_shapes


def graph(type, output, weight=None, **params):
    x = Tensor("x", (1, 8, 8, 4), FLOAT32)
    inputs = [x] if weight is None else [x, static("w", np.ones(weight, np.float32))]
    values = {key: static("", np.asarray(value, np.uint32)) for key, value in params.items()}
    y = Tensor("y", output, FLOAT32)
    return op_graph(type, inputs, [y], values)


WINDOW = {"stride": [2, 2], "pad_amount": [[1, 1], [1, 1]]}
CASES = [
    ("Conv2d", (1, 4, 4, 6), (3, 3, 4, 6), {**WINDOW, "dilation": [1, 1]}),
    ("DepthWiseConv2d", (1, 4, 4, 4), (3, 3, 1, 4), WINDOW),
    ("PoolMax2d", (1, 4, 4, 4), None, {**WINDOW, "filter_size": [3, 3]}),
    ("TransposeConv2d", (1, 15, 15, 6), (3, 3, 4, 6), WINDOW),
    ("Pad", (1, 10, 8, 4), None, {"pad_amount": [[0, 0], [1, 1], [0, 0], [0, 0]]}),
    ("Tile", (1, 16, 8, 4), None, {"multiples": [1, 2, 1, 1]}),
]


@pytest.mark.parametrize(("type", "output", "weight", "params"), CASES)
def test_outputs_follow_from_parameters(type, output, weight, params):
    assert verify_shapes(graph(type, output, weight, **params)) == []
    wrong = (output[0], output[1] + 1, *output[2:])
    (problem,) = verify_shapes(graph(type, wrong, weight, **params))
    assert isinstance(problem, ConstraintError)
    assert f"make the output {list(output)}, but it is {list(wrong)}" in str(problem)


def test_pool_that_rounds_up_may_keep_or_drop_the_last_window():
    params = {"filter_size": [2, 2], "stride": [3, 3], "pad_amount": [[0, 0], [0, 0]]}
    for extent in (2, 3):
        made = graph("PoolMax2d", (1, extent, extent, 4), None, **params)
        made.ops[0].params["rounding_mode"] = u32(1)
        assert verify_shapes(made) == []


def test_a_scalar_may_have_the_shape_of_one_element():
    every = {"axes": [0, 1, 2, 3]}
    for output in ((), (1,)):
        assert verify_shapes(graph("ReduceMean", output, **every)) == []
    assert len(verify_shapes(graph("ReduceMean", (2,), **every))) == 1


def test_a_fully_connected_layer_may_keep_the_rank():
    for output in ((1, 6), (1, 1, 1, 6)):
        assert verify_shapes(graph("FullyConnected", output, (6, 256))) == []
    for output in ((2, 6), (1, 1, 2, 6), (1, 1, 6, 1)):
        assert len(verify_shapes(graph("FullyConnected", output, (6, 256)))) == 1


def test_host_run_refuses_a_padding_of_millions():
    made = graph("Conv2d", (1, 8, 8, 6), (3, 3, 4, 6), **{**WINDOW, "pad_amount": [[1 << 23, 1], [1, 1]]})
    with pytest.raises(ConstraintError, match="its parameters make the output"):
        xdlc.run(Model({"g": made}), {"x": np.zeros((1, 8, 8, 4), np.float32)})


def dims(rng, rank, low=1, high=6):
    return tuple(int(size) for size in rng.integers(low, high, rank))


def numbers(*values):
    return static("", np.asarray(values, np.uint32))


def conv(rng, kind):
    source = (1, *dims(rng, 2, 6, 12), int(rng.integers(1, 4)))
    kernel, stride = dims(rng, 2, 1, 4), dims(rng, 2, 1, 3)
    pads = numbers(*rng.integers(0, 2, (2, 2)))
    depth = 1 if kind.startswith("Depth") else source[-1]
    count = source[-1] if kind.startswith("Depth") else 5
    params = {"stride": numbers(*stride), "pad_amount": pads}
    if kind != "TransposeConv2d":
        params["dilation"] = numbers(*dims(rng, 2, 1, 3))
    return [source, np.ones((*kernel, depth, count), np.float32)], params


def pool(rng, kind):
    size = dims(rng, 2, 2, 4)
    params = {"filter_size": numbers(*size), "stride": numbers(*dims(rng, 2, 1, 4))}
    return [(1, *dims(rng, 2, 5, 12), 3)], {**params, "pad_amount": numbers(*rng.integers(0, 2, (2, 2)))}


def reduced(rng, kind):
    source = dims(rng, 3)
    axes = numbers(*sorted(rng.choice(3, int(rng.integers(1, 4)), replace=False)))
    return [source], {"axes": axes, "keep_dims": b8(bool(rng.integers(2)))}


def sliced(rng, kind):
    source = dims(rng, 3, 2, 9)
    ranges = [(int(rng.integers(0, size)), size, int(rng.integers(1, 4))) for size in source]
    values = static("", np.asarray(ranges, np.int32))
    return [source], {"ranges": values, "shrink_axes": u32(int(rng.integers(8)))}


def product(rng, kind):
    rows, inner, columns, stack = dims(rng, 4)
    turned = bool(rng.integers(2))
    other = (columns, inner) if turned else (inner, columns)
    return [(stack, rows, inner), (1, *other)], {"transpose_in0": b8(False), "transpose_in1": b8(turned)}


def blocks(rng, kind):
    down, across = dims(rng, 2, 1, 4)
    high, wide, deep = dims(rng, 3)
    batch, size = 2, {"block_size": numbers(down, across)}
    if kind == "SpaceToDepth":
        return [(batch, high * down, wide * across, deep)], size
    if kind == "DepthToSpace":
        return [(batch, high, wide, deep * down * across)], size
    if kind == "SpaceToBatch":
        return [(batch, high * down, wide * across, deep)], {**size, "pad_amount": numbers((0, 0), (0, 0))}
    return [(batch * down * across, high, wide, deep)], {**size, "crops": numbers((0, 0), (0, 0))}


def gathered(rng, kind):
    source = dims(rng, 3, 2, 6)
    if kind == "GatherNd":
        return [source, np.zeros((3, 2), np.int32)], {}
    if kind == "GatherElements":
        return [source, np.zeros((source[0], 4, source[2]), np.int32)], {"axis": u32(1)}
    return [source, np.zeros(dims(rng, 2), np.int32)], {"axis": i32(int(rng.integers(3)))}


def joined(rng, kind):
    source, axis = list(dims(rng, 3)), int(rng.integers(3))
    other = list(source)
    other[axis] += 2 * (kind == "Concat")
    return [tuple(source), tuple(other)], {"axis": u32(axis)}


def placed(rng, kind):
    source = dims(rng, 3)
    if kind == "Transpose":
        return [source], {"perm": numbers(*rng.permutation(3))}
    if kind == "Tile":
        return [source], {"multiples": numbers(*dims(rng, 3, 1, 4))}
    if kind == "Pad":
        return [source], {"scheme": u32(0), "pad_amount": numbers(*rng.integers(0, 3, (3, 2)))}
    if kind == "TopK":
        return [(2, 8)], {"k": u32(int(rng.integers(1, 8)))}
    return [source], {"axis": u32(int(rng.integers(3))), "keep_dims": b8(bool(rng.integers(2)))}


def parted(rng, kind):
    source, axis = dims(rng, 3, 3, 7), int(rng.integers(3))
    return [source], {"axis": u32(axis), **({"split_index": numbers(1, 2)} if kind == "Split" else {})}


def alike(rng, kind):
    source = dims(rng, 3)
    if kind == "ElementWiseBinary":
        return [source, (source[1], 1)], {"operation": u32(0)}
    return [source], {}


def dense(rng, kind):
    rows, width, units = dims(rng, 3)
    return [(rows, width), np.ones((units, width), np.float32)], {}


FAMILIES = {
    conv: ["Conv2d", "DepthWiseConv2d", "TransposeConv2d"],
    pool: ["PoolAvg2d", "PoolMax2d"],
    reduced: ["ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"],
    sliced: ["StridedSlice"],
    product: ["MatMul"],
    blocks: ["SpaceToDepth", "DepthToSpace", "SpaceToBatch", "BatchToSpace"],
    gathered: ["Gather", "GatherElements", "GatherNd"],
    joined: ["Concat", "Pack"],
    placed: ["Transpose", "Tile", "Pad", "TopK", "Argmax"],
    parted: ["Split", "UnPack"],
    alike: ["ElementWiseBinary", "Softmax", "Relu"],
    dense: ["FullyConnected"],
}
EACH = [(kind, family) for family, kinds in FAMILIES.items() for kind in kinds]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("kind", "family"), EACH, ids=[kind for kind, _ in EACH])
def test_inferred_shapes_are_those_of_the_lowered_model(kind, family, seed):
    rng = np.random.default_rng([seed, len(kind)])
    operands, params = family(rng, kind)
    built = Graph("g")
    inputs = [
        built.add_input(Tensor(f"x{at}", value, FLOAT32))
        if isinstance(value, tuple)
        else static(f"c{at}", value)
        for at, value in enumerate(operands)
    ]
    count = {"Split": 3, "TopK": 2}.get(kind, 1)
    if kind == "UnPack":
        count = operands[0][params["axis"].value]
    types = {"Argmax": [UINT32], "TopK": [FLOAT32, UINT32]}.get(kind, [FLOAT32] * count)
    rank = 2 if kind == "FullyConnected" else 3
    blank = [Tensor(f"y{at}", (1,) * rank, dtype) for at, dtype in enumerate(types)]
    shapes = infer(make_op(built, kind, inputs, blank, params, name="blank"))
    outputs = [
        Tensor(f"y{at}", dims, dtype) for at, (dims, dtype) in enumerate(zip(shapes, types, strict=True))
    ]
    built.append(make_op(built, kind, inputs, outputs, params, name="op"))
    for tensor in outputs:
        built.add_output(tensor)
    assert verify_shapes(built) == []
    results = run(built, {t.name: np.ones(t.shape, np.float32) for t in built.inputs})
    assert [results[tensor.name].shape for tensor in outputs] == shapes


def test_an_op_type_without_law_has_no_shape():
    x = Tensor("x", (1, 2, 3), FLOAT32)
    assert infer(make_op(Graph("g"), "Reshape", [x], [Tensor("y", (6,), FLOAT32)])) is None


def test_operands_that_do_not_go_together_are_an_error():
    one, other = Tensor("a", (2, 3), FLOAT32), Tensor("b", (2, 4), FLOAT32)
    with pytest.raises(ShapeError, match=r"'a' .*'b'"):
        infer(make_op(Graph("g"), "ElementWiseAdd", [one, other], [Tensor("y", (2, 3), FLOAT32)]))
