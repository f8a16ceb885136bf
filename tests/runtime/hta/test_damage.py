"""Plans come from files: whatever a field of an instruction holds, it is refused, or runs to an end."""

import contextlib
import functools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hta_ops import activation, one_op
from xdlc.errors import ContainerError
from xdlc.ir import ScaleOffset, static, u32
from xdlc.prepare.hta.compile import compile_section
from xdlc.runtime.hta.form import ALIGNMENT, HEADER, MAGIC, VERSION, decode, encode
from xdlc.runtime.hta.session import PlanSession

ENCODING, OTHER = ScaleOffset(0.02, -100), ScaleOffset(0.03, -5)
WINDOW = {name: static(name, np.array([2, 2], np.uint32)) for name in ("filter_size", "stride")}
# kind, inputs, result, parameters
CASES = {
    "lookup": ("Sigmoid", [(1, 4, 3)], (1, 4, 3), {}),
    "lookup_pair": ("ElementWiseMultiply", [(1, 4, 3), (3,)], (1, 4, 3), {}),
    "product": ("ElementWiseDivide", [(1, 4, 3), (3,)], (1, 4, 3), {}),
    "concat": ("Concat", [(1, 4, 3), (1, 4, 2)], (1, 4, 5), {"axis": u32(2)}),
    "pool_max": ("PoolMax2d", [(1, 4, 6, 2)], (1, 2, 3, 2), WINDOW),
    "pool_average": ("PoolAvg2d", [(1, 4, 6, 2)], (1, 2, 3, 2), WINDOW),
    "total": ("ReduceMean", [(1, 4, 3)], (1, 3), {"axes": static("axes", np.array([1], np.uint32))}),
    "resize_linear": ("ResizeBilinear", [(1, 3, 3, 2)], (1, 5, 4, 2), {}),
    "resize_nearest": ("ResizeNearestNeighbor", [(1, 3, 3, 2)], (1, 5, 4, 2), {}),
    "softmax": ("Softmax", [(3, 5)], (3, 5), {}),
}
VALUES = st.sampled_from(
    [0, 1, 2, 3, 5, 255, 256, 65536, -1, 1 << 20, 1 << 31, "uint8", "uint16", "int64", None]
)
LARGEST_ARENA = 1 << 22


@functools.cache
def plan_of(name):
    kind, shapes, result, params = CASES[name]
    bits = 16 if name == "product" else 8
    inputs = [activation(f"x{index}", shape, OTHER, bits) for index, shape in enumerate(shapes)]
    plan = compile_section(one_op(kind, inputs, activation("y", result, ENCODING, bits), params))
    assert name in {step.kind for step in plan.instructions}
    return encode(plan)


def fields(held, path=()):
    items = held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, list) else None
    if items is None:
        return [path]
    return [found for key, value in items for found in fields(value, (*path, key))]


def changed(data, place, value):
    length = HEADER.unpack_from(data)[3]
    described = json.loads(data[HEADER.size : HEADER.size + length])
    constants = data[HEADER.size + length + -(HEADER.size + length) % ALIGNMENT :]
    paths = fields(described)
    *path, last = paths[int(place * (len(paths) - 1))]
    functools.reduce(lambda held, key: held[key], path, described)[last] = value
    text = json.dumps(described).encode()
    head = HEADER.pack(MAGIC, VERSION, 0, len(text), len(constants))
    return head + text + bytes(-(HEADER.size + len(text)) % ALIGNMENT) + constants


@pytest.mark.parametrize("name", CASES)
@given(place=st.floats(0, 1), value=VALUES)
@settings(max_examples=25, deadline=None)
def test_any_field_of_a_plan(name, place, value):
    with contextlib.suppress(ContainerError):  # anything else is a failure
        plan = decode(changed(plan_of(name), place, value), where="plan")
        if plan.arena > LARGEST_ARENA:
            return
        session = PlanSession(plan)
        buffers = [plan.buffers[index] for index in plan.inputs]
        session.run({held.name: np.full(held.shape, 7, held.dtype) for held in buffers})
