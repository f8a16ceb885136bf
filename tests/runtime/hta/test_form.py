"""Plans as bytes: what is written is read again, and what is damaged is refused or harmless."""

import json
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hta_models import activated, convolution, operation, rows, transposed
from xdlc.errors import ContainerError
from xdlc.prepare.hta.compile import compile_section
from xdlc.runtime.hta.form import HEADER, decode, encode, is_plan
from xdlc.runtime.hta.plan import Buffer, Constant, Instruction, Plan
from xdlc.runtime.hta.session import PlanSession

COPY = Plan(
    (Buffer("a", (2, 3), "uint8", 0, 0.5, -3), Buffer("b", (3, 2), "uint8", 8, 0.5, -3)),
    (0,),
    (1,),
    (Instruction("copy", "op", (0,), (1,), {}, {}),),
    16,
    b"",
)


def described(plan=COPY, **changes):
    """Return a plan's bytes, with entries of its description changed."""
    data = encode(plan)
    length = HEADER.unpack_from(data)[3]
    found = json.loads(data[HEADER.size : HEADER.size + length]) | changes
    text = json.dumps(found).encode()
    return HEADER.pack(b"XHTA", 1, 0, len(text), 0) + text + bytes(-(HEADER.size + len(text)) % 8)


def step(**changes):
    held = {"kind": "copy", "op": "op", "in": [0], "out": [1], "constants": {}, "settings": {}}
    return {"instructions": [held | changes]}


def plans():
    rng = np.random.default_rng(0)
    sizes = dict(extents=(4, 5), channels=3, units=3)
    graphs = [
        convolution(rng, **sizes),
        convolution(rng, "DepthWiseConv2d", **sizes),
        convolution(rng, bits=16, taps=(1, 1), pads=((0, 0), (0, 0)), **sizes),
        transposed(rng, extents=(3, 3), channels=2, units=2),
        activated(rng, "Conv2d", "Prelu", **sizes),
        activated(rng, "Conv2d", "HardSwish", **sizes),
        rows(rng, shape=(2, 6), width=6, units=3),
        operation(rng, "ElementWiseAdd", ((1, 3), (1, 3))),
        operation(rng, "ElementWiseSubtract", ((1, 3), (1, 3)), 16),
    ]
    return [encode(compile_section(graph)) for graph in graphs]


PLANS = plans()


def run(data):
    """Open and run what claims to be a plan."""
    plan = decode(data, where="plan")
    inputs = [plan.buffers[index] for index in plan.inputs]
    PlanSession(plan).run({held.name: np.zeros(held.shape, held.dtype) for held in inputs})


@pytest.mark.parametrize("data", PLANS)
def test_what_is_written_is_read_again(data):
    assert encode(decode(data, where="plan")) == data
    run(data)


def test_the_same_graph_gives_the_same_bytes():
    assert plans() == PLANS


def test_plans_hold_whole_numbers_only():
    for data in PLANS:
        plan = decode(data, where="plan")
        for instruction in plan.instructions:
            assert {held.dtype for held in instruction.constants.values()} <= {
                "int8", "uint8", "int32", "int64", "uint16", "int16",
            }  # fmt: skip


def test_other_code_is_no_plan():
    assert is_plan(PLANS[0])
    assert not is_plan(b"\x7fELF")
    with pytest.raises(ContainerError, match="no plan"):
        decode(b"\x7fELF", where="plan")


@pytest.mark.parametrize("data", PLANS)
def test_a_plan_cut_anywhere_is_refused(data):
    for length in (*range(HEADER.size + 2), len(data) // 2, len(data) - 1):
        with pytest.raises(ContainerError):
            decode(data[:length], where="plan")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"arena": 1 << 40}, "arena"),
        ({"arena": 4096}, "for buffers of 16"),
        ({"arena": True}, "arena"),
        ({"inputs": [2]}, "position"),
        ({"inputs": [0, 0]}, "names of their own"),
        ({"outputs": 1}, "no list"),
        ({"buffers": {}}, "no list 'buffers'"),
        ({"buffers": [["a", "uint8", 0, 0.5]]}, "malformed buffer"),
        ({"buffers": [["a", "float64", 0, 0.5, 0, 2]]}, "'float64'"),
        ({"buffers": [["a", ["uint8"], 0, 0.5, 0, 2]]}, "has the type"),
        ({"buffers": [["a", "uint8", 3, 0.5, 0, 2]]}, "puts 2 bytes at 3"),
        ({"buffers": [["a", "uint8", 16, 0.5, 0, 2]]}, "puts 2 bytes at 16"),
        ({"buffers": [["a", "uint8", 0, 0.5, 0, 0]]}, "empty or too large"),
        ({"buffers": [["a", "uint8", 0, 0.5, 0, *[1 << 30] * 8]]}, "empty or too large"),
        ({"buffers": [["a", "uint8", 0, 0.5, 0, *[1] * 9]]}, "rank 9"),
        ({"buffers": [["a", "uint8", 0, -1.0, 0, 2]]}, "no encoding"),
        ({"buffers": [["a", "uint8", 0, float("nan"), 0, 2]]}, "no encoding"),
        ({"buffers": [["a", "uint8", 0, 0.5, 1 << 70, 2]]}, "no encoding"),
        ({"buffers": [["\ud800", "uint8", 0, 0.5, 0, 2]]}, "should be text"),
        ({"instructions": [1]}, "malformed instruction"),
        (step(kind=3), "should be text"),
        (step(constants=[]), "without 'constants'"),
        (step(constants={"x": ["int8"]}), "malformed constant"),
        (step(constants={"x": ["int8", 0, 4]}), "puts 4 bytes at 0"),
        (step(constants={"x": ["float32", 0]}), "whole numbers"),
        (step(settings={"x": True}), "has the setting True"),
        (step(settings={"x": [1.5]}), "has the setting"),
        (step(settings={"x": 1 << 70}), "has the setting"),
    ],
)
def test_what_is_out_of_range_is_refused(changes, problem):
    with pytest.raises(ContainerError, match=problem):
        decode(described(**changes), where="plan")


def test_headers_that_lie_are_refused():
    data = encode(COPY)
    for problem, changed in {
        "version 9": HEADER.pack(b"XHTA", 9, 0, 2, 0) + data[HEADER.size :],
        "announces": HEADER.pack(b"XHTA", 1, 0, 1 << 31, 0) + data[HEADER.size :],
        "no JSON": HEADER.pack(b"XHTA", 1, 0, 8, 0) + b"[" * 8,
        "no object": HEADER.pack(b"XHTA", 1, 0, 8, 0) + b"[1,2,3] ",
    }.items():
        with pytest.raises(ContainerError, match=problem):
            decode(changed, where="plan")
    deep = b"[" * 100_000
    with pytest.raises(ContainerError, match="no JSON"):
        decode(HEADER.pack(b"XHTA", 1, 0, len(deep), 0) + deep, where="plan")


def test_constants_are_arrays():
    plan = replace(COPY, constants=bytes([1, 0, 2, 0]))
    assert plan.array(Constant((2,), "int16", 0)).tolist() == [1, 2]


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_damaged_plans_are_refused_or_run(data):
    """Bytes changed anywhere, most of all in the description, where numbers become others."""
    held = bytearray(data.draw(st.sampled_from(PLANS)))
    length = HEADER.unpack_from(held)[3]
    described_at = [at for at in range(HEADER.size, HEADER.size + length) if chr(held[at]) in "0123456789"]
    for _ in range(data.draw(st.integers(1, 4))):
        if data.draw(st.booleans()):
            held[data.draw(st.sampled_from(described_at))] = data.draw(st.sampled_from(b"0123456789-,"))
        else:
            held[data.draw(st.integers(0, len(held) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ContainerError):
        run(bytes(held))
