import ctypes
from contextlib import ExitStack

import numpy as np
import pytest
from numpy.linalg import _umath_linalg

import xdlc
from tests.quant.conftest import decided_plan
from xdlc.ir import static, u32
from xdlc.quant.engine import Engine
from xdlc.quant.reconstruction.network import Walk, _added_to, _one_blas_thread, fit_network
from xdlc.quant.reconstruction.problem import (
    TRIED,
    Sums,
    best_scales,
    damping_for,
    descended,
    error_of,
    nearest,
    rounded_in_turn,
    turns_of,
)
from xdlc.quant.reconstruction.sites import Fitted, find_sites, layout_of
from xdlc.runtime.cpu import CpuSession

LIMITS = (-8, 7)


def test_threads_of_blas_come_back_after_the_last_of_two_calls():
    library = ctypes.CDLL(_umath_linalg.__file__)
    if not hasattr(library, "scipy_openblas_set_num_threads64_"):
        pytest.skip("numpy has another BLAS")
    before = library.scipy_openblas_get_num_threads64_()
    library.scipy_openblas_set_num_threads64_(2)
    try:
        first, second = ExitStack(), ExitStack()
        first.enter_context(_one_blas_thread())
        second.enter_context(_one_blas_thread())
        first.close()
        assert library.scipy_openblas_get_num_threads64_() == 1
        second.close()
        assert library.scipy_openblas_get_num_threads64_() == 2
    finally:
        library.scipy_openblas_set_num_threads64_(before)


def conv(n, kernel, out, *, kind="Conv2d", stride=(1, 1), dilation=(1, 1), pads=((0, 0), (0, 0)), group=1):
    params = {
        "stride": static("s", np.uint32(stride)),
        "pad_amount": static("p", np.uint32(pads)),
        "group": u32(group),
    }
    if kind == "DepthWiseConv2d":
        del params["group"]
    if kind != "TransposeConv2d":
        params["dilation"] = static("d", np.uint32(dilation))
    n.op(kind, [n.x, n.weights("w", *kernel)], out, "y", **params)


CASES = {
    "plain": ((2, 5, 6, 3), (3, 3, 3, 4), (2, 5, 6, 4), {"pads": ((1, 1), (1, 1))}),
    "strided": ((1, 7, 9, 3), (3, 2, 3, 4), (1, 4, 4, 4), {"stride": (2, 2), "pads": ((1, 1), (0, 0))}),
    "uneven": ((1, 6, 6, 2), (3, 3, 2, 5), (1, 3, 3, 5), {"stride": (2, 2), "pads": ((0, 1), (1, 0))}),
    "dilated": ((1, 8, 8, 2), (3, 3, 2, 3), (1, 6, 4, 3), {"dilation": (1, 2)}),
    "grouped": ((1, 4, 4, 6), (3, 3, 3, 4), (1, 4, 4, 4), {"group": 2, "pads": ((1, 1), (1, 1))}),
    "depthwise": (
        (1, 5, 5, 4),
        (3, 3, 1, 4),
        (1, 5, 5, 4),
        {"kind": "DepthWiseConv2d", "pads": ((1, 1), (1, 1))},
    ),
    "transposed": (
        (1, 4, 3, 4),
        (3, 3, 4, 5),
        (1, 8, 6, 5),
        {"kind": "TransposeConv2d", "stride": (2, 2), "pads": ((0, 1), (1, 0))},
    ),
    "transposed groups": (
        (1, 4, 3, 4),
        (2, 2, 4, 3),
        (1, 8, 6, 6),
        {"kind": "TransposeConv2d", "stride": (2, 2), "group": 2},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_rows_times_matrix_is_the_convolution(net, case):
    shape, kernel, out, params = CASES[case]
    n = net(*shape)
    conv(n, kernel, out, **params)
    check_layout(n)


def test_rows_times_matrix_is_a_fully_connected_layer(net):
    n = net(3, 6)
    n.op("FullyConnected", [n.x, n.weights("w", 4, 6)], (3, 4), "y")
    check_layout(n)


@pytest.mark.parametrize("turned", [False, True])
def test_rows_times_matrix_is_a_matrix_product(net, turned):
    n = net(2, 3, 6)
    shape = (4, 6) if turned else (6, 4)
    n.op("MatMul", [n.x, n.weights("w", *shape)], (2, 3, 4), "y", transpose_in1=xdlc.ir.b8(turned))
    check_layout(n)


def check_layout(n):
    op = n.graph.tensors["y"].producer
    model = n.done(op.outputs[0])
    (sample,) = n.samples(1)
    expected = CpuSession(model).run(sample)["y"].reshape(-1, op.outputs[0].shape[-1])
    layout, weight = layout_of(op), op.inputs[1].numpy()
    matrix = layout.matrix(weight)
    assert matrix.shape == (layout.groups, layout.depth, layout.width)
    np.testing.assert_array_equal(layout.weight(matrix), weight)
    count = layout.positions(sample["x"].shape)
    assert count == len(expected)
    chosen = np.random.default_rng(0).permutation(count)
    got = layout.rows(sample["x"], chosen) @ matrix
    got = got.transpose(1, 0, 2).reshape(count, -1)
    np.testing.assert_allclose(got, expected[chosen], atol=1e-4)


def a_problem(seed, groups=1, depth=70, width=5, rows=3000):
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((depth, depth)).astype(np.float32)
    rows = (rng.standard_normal((groups, rows, depth)).astype(np.float32) + 1) @ mixing
    matrix = rng.standard_normal((groups, depth, width)).astype(np.float32)
    scales = np.abs(matrix).max(axis=1, keepdims=True) / 7
    return Sums.of([(rows, rows @ matrix)], matrix, centred=True)[0].problem(0.05), matrix, scales


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("groups", [1, 3])
def test_each_step_of_rounding_leaves_less_error(seed, groups):
    problem, matrix, scales = a_problem(seed, groups)
    best = problem.solution()
    np.testing.assert_allclose(best, matrix, atol=1e-2)

    def error(integers):
        assert integers.min() >= LIMITS[0]
        assert integers.max() <= LIMITS[1]
        np.testing.assert_array_equal(integers, np.rint(integers))
        return error_of(problem.gram, best - integers * scales)

    plain = nearest(best, scales, LIMITS)
    turn = rounded_in_turn(turns_of(problem.gram), best, scales, LIMITS)
    moved = descended(problem.gram, best, turn, scales, LIMITS, 5)
    assert error(turn).sum() < 0.7 * error(plain).sum()
    assert (error(moved) <= error(turn) * 1.0001).all()
    assert (error(descended(problem.gram, best, plain, scales, LIMITS, 5)) <= error(plain) * 1.0001).all()


def test_where_descent_ends_no_single_move_helps():
    problem, _, scales = a_problem(0, depth=12)
    best = problem.solution()
    found = descended(problem.gram, best, nearest(best, scales, LIMITS), scales, LIMITS, 100)
    least = error_of(problem.gram, best - found * scales)
    for at in range(found.shape[1]):
        for step in (-1, 1):
            other = found.copy()
            other[:, at] = np.clip(other[:, at] + step, *LIMITS)
            assert (error_of(problem.gram, best - other * scales) >= least * 0.9999).all()


@pytest.mark.parametrize("per_tensor", [False, True])
def test_the_scale_of_least_error_is_found(per_tensor):
    problem, matrix, scales = a_problem(1, width=4)
    factors = (1.0, 0.8, 0.6)

    def rounding(real, tried):
        return nearest(real, tried, LIMITS)

    step_sizes, integers = best_scales(
        problem.gram, matrix, [scales * f for f in factors], rounding, shared=per_tensor
    )
    errors = np.stack(
        [
            error_of(problem.gram, matrix - nearest(matrix, scales * f, LIMITS) * scales * f)[0]
            for f in factors
        ]
    )
    best = np.full(4, errors.sum(axis=1).argmin()) if per_tensor else errors.argmin(axis=0)
    np.testing.assert_allclose(step_sizes[0, 0], scales[0, 0] * np.take(factors, best), rtol=1e-5)
    np.testing.assert_array_equal(integers, nearest(matrix, step_sizes, LIMITS))


def test_a_layer_without_information_keeps_its_weights():
    matrix = np.ones((1, 3, 2), np.float32)
    rows = np.zeros((1, 4, 3), np.float32), np.zeros((1, 4, 2), np.float32)
    problem = Sums.of([rows], matrix, centred=True)[0].problem(0.05)
    np.testing.assert_allclose(problem.solution(), matrix)


def small(net):
    n = net(1, 6, 6, 3)
    a = n.neuron(n.conv(n.x, 4, "a"), 4, "ra")
    b = n.neuron(n.conv(a, 4, "b"), 4, "rb")
    c = n.binary(a, b, 0, "c")
    return n.done(n.conv(c, 5, "d", kernel=1)), n.samples(12)


def test_walking_level_by_level_gives_what_the_whole_graph_gives(net):
    model, samples = small(net)
    graph = model.main
    whole = CpuSession(model, outputs=["c", "ra"])
    walk = Walk(graph, lambda op: op.type == "Conv2d", quantized=False)
    walk.enter(samples)
    seen = []
    for _ in range(walk.count):
        walk.advance()
        seen += [op.name for op in walk.waiting()]
    assert seen == ["a_op", "b_op", "d_op"]
    for index, sample in enumerate(samples):
        wanted = whole.run(sample)["c"]
        np.testing.assert_allclose(walk.value(index, graph.tensors["c"]), wanted, atol=1e-5)
    with pytest.raises(KeyError):
        walk.value(0, graph.tensors["ra"])


def decided(model, samples):
    return decided_plan(model.clone(), samples, weights_bitwidth=4)


def test_what_does_worse_on_held_out_samples_is_taken_back(net):
    plan, calibration = decided(*small(net))
    before = [op.inputs[1].data for op in find_sites(plan)[0]], dict(plan.decision.statics)

    def zeros(plan, site, problem, matrix, scales):
        return Fitted(np.zeros_like(matrix), scales * 0.5, None)

    plan = fit_network(plan, calibration, Engine(), "zeros", zeros, data=True)
    assert any("zeros: dropped" in note for note in plan.notes)
    assert before == ([op.inputs[1].data for op in find_sites(plan)[0]], dict(plan.decision.statics))


def test_progress_counts_layers(net):
    plan, calibration = decided(*small(net))
    steps = []
    engine = Engine(step=lambda *step: steps.append(step))

    def same(plan, site, problem, matrix, scales):
        return Fitted(nearest(matrix, scales, LIMITS), scales, None)

    fit_network(plan, calibration, engine, "same", same, data=False)
    assert steps == [("same", 1, 3), ("same", 2, 3), ("same", 3, 3)]


def halves_of(rows, results, matrix):
    return Sums.of([(rows[:, ::2], results[:, ::2]), (rows[:, 1::2], results[:, 1::2])], matrix, centred=True)


def test_damping_of_many_rows_goes_with_their_number():
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((1, 4, 2)).astype(np.float32)
    rows = rng.standard_normal((1, 100, 4)).astype(np.float32)
    assert damping_for(halves_of(rows, rows @ matrix, matrix), lambda _: matrix) == pytest.approx(0.09)


def test_damping_of_few_rows_is_what_holds_on_others():
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((1, 40, 3)).astype(np.float32)
    # Inputs of few degrees of freedom, and results of other weights: those are worth following.
    known = (rng.standard_normal((1, 80, 5)) @ rng.standard_normal((1, 5, 40))).astype(np.float32)
    other = known @ rng.standard_normal((1, 40, 3)).astype(np.float32)
    follow = damping_for(halves_of(known, other, matrix), lambda problem: problem.solution())
    # Inputs that say nothing of each other, and results that are noise besides: those are not.
    free = rng.standard_normal((1, 80, 40)).astype(np.float32)
    noisy = free @ matrix + 10 * rng.standard_normal((1, 80, 3)).astype(np.float32)
    stay = damping_for(halves_of(free, noisy, matrix), lambda problem: problem.solution())
    assert follow == min(TRIED)
    assert stay == max(TRIED)


@pytest.mark.parametrize("centred", [False, True])
def test_sums_of_halves_are_those_of_the_whole(centred):
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((2, 4, 3)).astype(np.float32)
    rows = rng.standard_normal((2, 50, 4)).astype(np.float32) + 3
    results = rows @ matrix + 5
    one, other = Sums.of([(rows[:, at::2], results[:, at::2]) for at in (0, 1)], matrix, centred=centred)
    one.merge(other)
    problem = one.problem(0.0)
    x, y = (each - each.mean(axis=1, keepdims=True) * centred for each in (rows, results))
    np.testing.assert_allclose(problem.gram, x.transpose(0, 2, 1) @ x / 50, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(problem.cross, x.transpose(0, 2, 1) @ y / 50, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(problem.bias(matrix), np.full((2, 3), 5.0 * centred), atol=1e-4)


def test_a_layer_makes_up_for_what_is_added_to_it_if_that_is_known(net):
    n = net(1, 6, 6, 4)
    a = n.neuron(n.conv(n.x, 4, "a"), 4, "ra")
    b = n.neuron(n.conv(a, 4, "b"), 4, "rb")
    c = n.conv(b, 4, "c")
    model = n.done(n.binary(c, a, 0, "sum"))
    graph, samples = model.main, n.samples(2)
    walk = Walk(graph, lambda op: op.type == "Conv2d", quantized=False)
    walk.enter(samples)
    found = []
    for _ in range(walk.count):
        walk.advance()
        found += [_added_to(walk, walk, op) for op in walk.waiting()]
    assert found == [None, None, graph.tensors["ra"]]


def test_what_is_known_only_later_is_not_made_up_for(net):
    n = net(1, 6, 6, 4)
    a = n.conv(n.x, 4, "a")
    b = n.conv(n.neuron(n.conv(n.x, 4, "b"), 4, "rb"), 4, "c")
    model = n.done(n.binary(a, b, 0, "sum"))
    walk = Walk(model.main, lambda op: op.type == "Conv2d", quantized=False)
    walk.enter(n.samples(1))
    walk.advance()
    assert [_added_to(walk, walk, op) for op in walk.waiting()] == [None, None]
    walk.advance()
    assert [_added_to(walk, walk, op) for op in walk.waiting()] == [model.main.tensors["a"]]
