"""What no compiler takes, whatever the op."""

import numpy as np
import pytest

from tests.hta_ops import activation, check_equal, one_op
from xdlc.errors import ConstraintError, ModelError, ProblemList
from xdlc.ir import ScaleOffset, Tensor, make_op, static, u32
from xdlc.ir.dtype import FLOAT32, INT32, SFIXED8, UFIXED8
from xdlc.prepare.hta.compile import compile_section

ENCODING = ScaleOffset(0.02, -100)
SHAPE = (1, 4, 4, 2)
OTHERS = {
    "float": Tensor("x", SHAPE, FLOAT32),
    "integers": Tensor("x", SHAPE, INT32),
    "signed": Tensor("x", SHAPE, SFIXED8, ScaleOffset(0.02)),
    "no encoding": Tensor("x", SHAPE, UFIXED8),
}
KINDS = {
    "Relu": SHAPE,
    "Softmax": SHAPE,
    "Reshape": (1, 32),
    "ReduceMean": (1, 1, 1, 2),
    "ResizeNearestNeighbor": (1, 8, 8, 2),
    "ResizeBilinear": (1, 8, 8, 2),
    "PoolMax2d": (1, 2, 2, 2),
    "PoolAvg2d": (1, 2, 2, 2),
}


def parameters(kind):
    if kind.startswith("Pool"):
        return {name: static(name, np.array([2, 2], np.uint32)) for name in ("filter_size", "stride")}
    return {"axes": static("axes", np.array([1, 2], np.uint32))} if kind == "ReduceMean" else {}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", OTHERS)
def test_values_that_are_no_activations(kind, other):
    given = OTHERS[other]
    source = Tensor("x", given.shape, given.dtype, given.encoding)
    graph = one_op(kind, [source], activation("y", KINDS[kind], ENCODING), parameters(kind))
    with pytest.raises(ConstraintError, match="should be ufixed8 or ufixed16 with one scale") as found:
        compile_section(graph)
    assert "op 'op'" in found.value.where
    assert "tensor 'x'" in found.value.where


def test_results_that_are_no_activations():
    graph = one_op("Relu", [activation("x", SHAPE, ENCODING)], Tensor("y", SHAPE, FLOAT32))
    with pytest.raises(ConstraintError, match="is float32 with no encoding"):
        compile_section(graph)


@pytest.mark.parametrize("kind", ["PoolMax2d", "PoolAvg2d", "ResizeBilinear", "ResizeNearestNeighbor"])
def test_inputs_that_are_no_images(kind):
    graph = one_op(
        kind, [activation("x", (4, 4), ENCODING)], activation("y", (2, 2), ENCODING), parameters(kind)
    )
    with pytest.raises(ConstraintError, match="should be of rank 4") as found:
        compile_section(graph)
    assert found.value.fix == "leave the op out of the HTA partition"


def test_windows_beyond_all_use():
    size = static("size", np.array([1 << 15, 1], np.uint32))
    params = {"filter_size": size, "stride": static("s", np.array([1, 1], np.uint32))}
    graph = one_op("PoolMax2d", [activation("x", SHAPE, ENCODING)], activation("y", SHAPE, ENCODING), params)
    with pytest.raises(ConstraintError, match="the most are 16384 elements"):
        compile_section(graph)


def test_all_problems_are_told_with_their_ops():
    source = activation("x", SHAPE, ENCODING)
    graph = one_op("Softmax", [source], activation("y", SHAPE, ENCODING), {"axis": u32(7)})
    for kind, name in (("PoolMax2d", "pool"), ("Lrn", "lrn")):
        graph.append(make_op(graph, kind, [source], [activation(f"{name}_y", SHAPE, ENCODING)], name=name))
        graph.add_output(graph.tensors[f"{name}_y"])
    with pytest.raises(ProblemList) as found:
        compile_section(graph)
    assert [(problem.node, type(problem)) for problem in found.value.problems] == [
        ("op", ModelError),
        ("pool", ModelError),
        ("lrn", ConstraintError),
    ]


def test_reshapes_may_change_the_encoding():
    source = activation("x", SHAPE, ENCODING)
    check_equal(one_op("Reshape", [source], activation("y", (1, 32), ScaleOffset(0.03, -70))))
    check_equal(one_op("Reshape", [source], activation("y", (1, 32), ScaleOffset(0.0003, -700), 16)))


@pytest.mark.parametrize("scale", [1e-38, 1e32])
def test_extreme_scales(scale):
    held = ScaleOffset(scale, -100)
    graph = one_op(
        "PoolAvg2d", [activation("x", SHAPE, held)], activation("y", (1, 2, 2, 2), held), parameters("Pool")
    )
    with pytest.raises(ConstraintError, match="no extreme"):
        compile_section(graph)


def test_scales_far_apart():
    """All results are clipped, or all are zero."""
    small, large = ScaleOffset(1e-3, -100), ScaleOffset(1e3, -100)
    for before, after in ((small, large), (large, small)):
        for kind in ("PoolAvg2d", "ResizeBilinear"):
            source, target = activation("x", SHAPE, before), activation("y", KINDS[kind], after)
            check_equal(one_op(kind, [source], target, parameters(kind)))
