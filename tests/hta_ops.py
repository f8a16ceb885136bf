"""Quantized graphs of one op with given operands, and the comparison of their HTA plans with the host."""

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from xdlc.ir import Graph, ScaleOffset, Tensor, make_op
from xdlc.ir.dtype import UFIXED8, UFIXED16
from xdlc.prepare.hta.compile import compile_section
from xdlc.runtime import CpuSession
from xdlc.runtime.hta.form import decode, encode
from xdlc.runtime.hta.registry import Step, find
from xdlc.runtime.hta.session import PlanSession

few = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
"""Each example opens sessions of the host."""
seeds = st.integers(0, 2**32 - 1)


@st.composite
def encodings(draw, bits=8):
    """Encodings of activations that hold zero: a range from 0.5 to 20, a zero anywhere in it."""
    top = (1 << bits) - 1
    scale = np.float32(draw(st.floats(0.5, 20)) / top)
    return ScaleOffset(float(scale), -draw(st.integers(0, top)))


def activation(name, shape, encoding, bits=8):
    return Tensor(name, tuple(shape), UFIXED8 if bits == 8 else UFIXED16, encoding)


def one_op(kind, inputs, target, params=None):
    """Return a graph of one op; inputs that are not static are inputs of the graph."""
    graph = Graph("g")
    for tensor in dict.fromkeys(inputs):
        if not tensor.is_static:
            graph.add_input(tensor)
    graph.append(make_op(graph, kind, inputs, [target], params or {}, name="op"))
    graph.add_output(target)
    return graph


def stored_inputs(graph, seed):
    rng = np.random.default_rng(seed)
    return {
        tensor.name: rng.integers(0, tensor.dtype.limits[1] + 1, tensor.shape).astype(tensor.dtype.numpy)
        for tensor in graph.inputs
    }


def results(graph, feeds, *, stated=False):
    """Return what the host computes for each output, and what the plan does, written and read again."""
    plan = decode(encode(compile_section(graph, stated=stated)), where="plan")
    want = CpuSession(graph, threads=1, plain=stated).run(feeds, native=True)
    have = PlanSession(plan).run(feeds)
    assert list(have) == list(want)
    return [(want[name], have[name]) for name in want]


def check_equal(graph, seed=0, *, stated=False):
    """Check that a plan gives the stored integers of the host, all of them."""
    for want, have in results(graph, stored_inputs(graph, seed), stated=stated):
        assert have.dtype == want.dtype
        np.testing.assert_array_equal(have, want)


def steps_apart(graph, seed=0):
    """Return the largest difference in steps, and the share of results that differ."""
    pairs = results(graph, stored_inputs(graph, seed))
    gaps = np.concatenate([np.abs(want.astype(int) - have.astype(int)).reshape(-1) for want, have in pairs])
    return gaps.max(), np.mean(gaps > 0)


def run_step(kind, inputs, outputs, constants=None, **settings):
    """Run one instruction on arrays; its outputs are written."""
    find(kind)(Step(inputs, outputs, constants or {}, settings, "plan: instruction 0"))()
    return outputs
