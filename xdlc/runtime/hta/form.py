"""The form of a plan as bytes.

======== ============================================================================================
Bytes    Content
======== ============================================================================================
4        ``XHTA``, by which a reader knows that this is not the vendor's code
2 + 2    version, 0
4 + 4    bytes of the description, bytes of the constants
...      the description: JSON with sorted keys, no blanks
0 to 7   zeros, up to a multiple of 8
...      the constants
======== ============================================================================================
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from xdlc.errors import ContainerError
from xdlc.runtime.hta.plan import DTYPES, Buffer, Constant, Instruction, Plan

MAGIC = b"XHTA"
VERSION = 1
HEADER = struct.Struct("<4sHHII")
ALIGNMENT = 8
LARGEST_ARENA = 1 << 32
LARGEST_CONSTANTS = (1 << 32) - 1
MAX_RANK = 8
_LARGEST_SCALE = 1e38
_LARGEST_ZERO = 1 << 24


def is_plan(data: bytes) -> bool:
    """Return whether bytes claim to be a plan; the vendor's code does not."""
    return data[: len(MAGIC)] == MAGIC


def encode(plan: Plan) -> bytes:
    """Return the bytes of a plan; the same plan, the same bytes."""
    described = json.dumps(
        {
            "arena": plan.arena,
            "buffers": [
                [held.name, held.dtype, held.offset, held.scale, held.zero, *held.shape]
                for held in plan.buffers
            ],
            "inputs": plan.inputs,
            "outputs": plan.outputs,
            "instructions": [
                {
                    "kind": step.kind,
                    "op": step.op,
                    "in": step.inputs,
                    "out": step.outputs,
                    "constants": {
                        name: [held.dtype, held.offset, *held.shape] for name, held in step.constants.items()
                    },
                    "settings": dict(step.settings),
                }
                for step in plan.instructions
            ],
        },
        sort_keys=True,
        separators=(",", ":"),
    ).encode()
    padding = -(HEADER.size + len(described)) % ALIGNMENT
    head = HEADER.pack(MAGIC, VERSION, 0, len(described), len(plan.constants))
    return head + described + bytes(padding) + plan.constants


def decode(data: bytes, *, where: str) -> Plan:
    """Return the plan that bytes hold, checked so far as no kernel is needed for it.

    Args:
        data: What ``encode`` gave, or what claims to be that.
        where: Its place, for errors.

    Raises:
        ContainerError: If a field is missing, of the wrong type, or out of its range.
    """
    return _Reader(where).plan(data)


class _Reader:
    def __init__(self, where: str) -> None:
        self.where = where

    def fail(self, problem: str) -> NoReturn:
        raise ContainerError(problem, where=self.where, fix="prepare the sections again with --enable_hta")

    def plan(self, data: bytes) -> Plan:
        if len(data) < HEADER.size or not is_plan(data):
            self.fail("is no plan of xdlc")
        _, version, _, described, held = HEADER.unpack_from(data)
        if version != VERSION:
            self.fail(f"is a plan of version {version}, only {VERSION} is known")
        start = HEADER.size + described + -(HEADER.size + described) % ALIGNMENT
        if start + held != len(data):
            self.fail(f"announces {start + held} bytes, has {len(data)}")
        try:
            found = json.loads(data[HEADER.size : HEADER.size + described].decode())
        except (ValueError, RecursionError) as error:
            self.fail(f"has a description that is no JSON: {error}")
        if not isinstance(found, dict):
            self.fail("has a description that is no object")
        arena = self.number(found.get("arena"), LARGEST_ARENA, "arena")
        buffers = tuple([self.buffer(item, arena) for item in self.items(found, "buffers")])
        needed = sum(held.nbytes + -held.nbytes % ALIGNMENT for held in buffers)
        if arena > needed:
            self.fail(f"has an arena of {arena} bytes for buffers of {needed}")
        return Plan(
            buffers,
            self.ports(found.get("inputs"), buffers),
            self.ports(found.get("outputs"), buffers),
            tuple([self.step(item, len(buffers), held) for item in self.items(found, "instructions")]),
            arena,
            data[start:],
        )

    def items(self, found: Mapping[str, Any], key: str) -> list[Any]:
        held = found.get(key)
        if not isinstance(held, list):
            self.fail(f"has no list {key!r}")
        return held

    def number(self, value: Any, limit: int, what: str) -> int:
        if type(value) is not int or not 0 <= value <= limit:
            self.fail(f"has the {what} {value!r}, should be a whole number from 0 to {limit}")
        return value

    def positions(self, value: Any, count: int) -> tuple[int, ...]:
        if not isinstance(value, list):
            self.fail("has no list of buffers where one should be")
        return tuple([self.number(item, count - 1, "position") for item in value])

    def ports(self, value: Any, buffers: Sequence[Buffer]) -> tuple[int, ...]:
        held = self.positions(value, len(buffers))
        names = [buffers[index].name for index in held]
        if "" in names or len(set(names)) != len(names):
            self.fail(f"has ports without names of their own: {', '.join(map(repr, sorted(names)))}")
        return held

    def text(self, value: Any, what: str) -> str:
        if not isinstance(value, str) or any("\ud800" <= letter <= "\udfff" for letter in value):
            self.fail(f"has the {what} {value!r}, should be text")
        return value

    def shape(self, extents: Sequence[Any]) -> tuple[int, ...]:
        if len(extents) > MAX_RANK:
            self.fail(f"has a shape of rank {len(extents)}, the most is {MAX_RANK}")
        shape = tuple([self.number(extent, LARGEST_ARENA, "extent") for extent in extents])
        if 0 in shape or math.prod(shape) > LARGEST_ARENA:
            self.fail(f"has a shape {list(shape)} that is empty or too large")
        return shape

    def dtype(self, value: Any) -> str:
        if not isinstance(value, str) or value not in DTYPES:
            self.fail(f"has the type {value!r}, known are {', '.join(DTYPES)}")
        return value

    def place(self, value: Any, nbytes: int, limit: int) -> int:
        offset = self.number(value, LARGEST_ARENA, "offset")
        if offset % ALIGNMENT or offset + nbytes > limit:
            self.fail(f"puts {nbytes} bytes at {offset}, with {limit} bytes in all")
        return offset

    def buffer(self, item: Any, arena: int) -> Buffer:
        if not isinstance(item, list) or len(item) < 5:
            self.fail("has a malformed buffer")
        name, dtype, offset, scale, zero, *extents = item
        name = self.text(name, "name")
        known = type(scale) in (int, float) and type(zero) is int
        if not known or not 0 <= scale <= _LARGEST_SCALE or abs(zero) > _LARGEST_ZERO:
            self.fail(f"has the scale {scale!r} and offset {zero!r} for {name!r}, which is no encoding")
        held = Buffer(name, self.shape(extents), self.dtype(dtype), 0, float(scale), zero)
        return replace(held, offset=self.place(offset, held.nbytes, arena))

    def step(self, item: Any, buffers: int, constants: int) -> Instruction:
        if not isinstance(item, dict):
            self.fail("has a malformed instruction")
        kind, op = (self.text(item.get(key), key) for key in ("kind", "op"))
        held = {name: self.constant(value, constants) for name, value in self.pairs(item, "constants")}
        settings = {name: self.setting(value) for name, value in self.pairs(item, "settings")}
        inputs, outputs = (self.positions(item.get(key), buffers) for key in ("in", "out"))
        return Instruction(kind, op, inputs, outputs, held, settings)

    def pairs(self, item: Mapping[str, Any], key: str) -> list[tuple[str, Any]]:
        held = item.get(key)
        if not isinstance(held, dict):
            self.fail(f"has an instruction without {key!r}")
        return [(self.text(name, "name"), value) for name, value in held.items()]

    def constant(self, item: Any, limit: int) -> Constant:
        if not isinstance(item, list) or len(item) < 2:
            self.fail("has a malformed constant")
        dtype, offset, *extents = item
        held = Constant(self.shape(extents), self.dtype(dtype), 0)
        if held.dtype == "float32":
            self.fail("has a constant of float32, should be of whole numbers")
        return replace(held, offset=self.place(offset, held.nbytes, limit))

    def setting(self, value: Any) -> int | tuple[int, ...]:
        listed = value if isinstance(value, list) else [value]
        if not all(type(item) is int and -(1 << 63) <= item < 1 << 63 for item in listed):
            self.fail(f"has the setting {value!r}, should be a whole number or a list of them")
        return tuple(listed) if isinstance(value, list) else int(value)
