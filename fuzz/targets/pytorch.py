"""PyTorch models: programs of torch.export and TorchScript."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.targets import Files, Target
from fuzz.targets._steps import built, convert
from fuzz.targets._sweep import SHAPES, TYPES, array, value
from tests.converter.pytorch.arguments import DTYPES
from tests.converter.pytorch.programs import TinyProgram
from tests.converter.pytorch.scripts import module, net, script
from xdlc.converter.pytorch.calls import REQUIRED, overloads, schema
from xdlc.converter.pytorch.registry import aten as handler

X = np.ones((2, 3), np.float32)
BODIES = (
    "y = x\nfor i in range(3):\n  y = torch.add(y, i)\nreturn y",
    "i = 0\ny = x\nwhile torch.lt(i, 4):\n  i, y = torch.add(i, 1), torch.neg(y)\nreturn y",
    "if torch.eq((torch.size(x))[0], 2):\n  y = x\nelse:\n  y = torch.neg(x)\nreturn y",
    "a, b, = torch.chunk(x, 2, 1)\nreturn torch.cat([b, a], 1)",
    "y = [x]\n_0 = torch.append(y, x)\nreturn torch.stack(y)",
    "return torch.mul(torch.to(x, 6), torch.tensor([1., 2., 3.]))",
    "n = ops.prim.NumToTensor(torch.size(x, 1))\nreturn torch.view(x, [int(n), -1])",
    "w = self.w\nreturn torch.linear(x, w, CONSTANTS.c0)",
)


def operator(rng: random.Random) -> str:
    """Return an operator that has a handler, with an overload."""
    name = rng.choice(sorted(type for domain, type in handler.all() if not domain))
    return rng.choice(overloads(name) or (name,))


def program(rng: random.Random) -> Files:
    """Return a program of a few operators: arguments by their kinds or of others."""
    tiny = TinyProgram()
    shape = rng.choice(SHAPES)
    values: list[Any] = [tiny.input("x", shape)]
    for index in range(rng.choice((0, 1, 2))):
        own = shape if rng.random() < 0.6 else rng.choice(SHAPES)
        values.append(tiny.weight(f"w{index}", array(rng, own, rng.choice(TYPES))))
    for _ in range(rng.choice((1, 1, 2))):
        name = operator(rng)
        arguments = {
            each.name: _argument(rng, each.kind, values)
            for each in schema(name) or ()
            if each.default is REQUIRED or rng.random() < 0.3
        }
        own, dtype = rng.choice((shape, shape, *SHAPES)), rng.choice(TYPES)
        if rng.random() < 0.8:
            values.append(tiny.op(name, named=arguments, shape=own, dtype=dtype))
        else:
            values += tiny.op(name, named=arguments, results=[(own, dtype)] * 2, listed=rng.random() < 0.5)
    return built(lambda folder: tiny.write(folder, [values[-1]]))


def _argument(rng: random.Random, kind: str, values: list[Any]) -> Any:
    bare = kind.rstrip("?!")
    if rng.random() < 0.08 or (kind != bare and rng.random() < 0.3):
        return rng.choice((None, rng.choice(values), value(rng, ("mean", "zeros"), single=True)))
    if bare.endswith("[]"):
        return [_argument(rng, bare[:-2], values) for _ in range(rng.choice((0, 1, 2, 2, 3, 4)))]
    if bare == "T":
        return rng.choice(values)
    if bare == "D":
        return np.dtype(rng.choice([each for each in DTYPES if each != "bfloat16"]))
    if bare == "Str":
        return rng.choice(("mean", "none", "sum", "floor", "trunc", "tanh", "ij", "x"))
    if bare == "B":
        return rng.random() < 0.5
    return (
        value(rng, ("mean",), single=True)
        if rng.random() < 0.2
        else rng.choice((0, 1, 2, -1, 0.5)[: 5 if bare in "SF" else 4])
    )


def code(rng: random.Random) -> Files:
    """Return an archive whose code calls an operator, or one of the seeds."""
    name = operator(rng)
    given = [
        _argument(rng, each.kind, ["x", "self.w"]) for each in schema(name) or () if each.default is REQUIRED
    ]
    shown = ", ".join(each if isinstance(each, str) else repr(each) for each in given).replace("'", "")
    body = rng.choice(BODIES) if rng.random() < 0.3 else f"return torch.{name.partition('.')[0]}({shown})"
    return built(lambda folder: script(folder, net(body), module("Net", w=X), [X[0]], traced=[X]))


def programs() -> Iterator[Files]:
    """Iterate over programs."""
    tiny = TinyProgram({"s0": 2})
    x = tiny.input("x", ("s0", 3))
    y = tiny.op("linear", x, tiny.weight("w", X), tiny.weight("b", X[0, :2]), shape=("s0", 2))
    tiny.op("_softmax", tiny.op("relu", y, shape=("s0", 2)), 1, False, shape=("s0", 2))
    tiny.ranges = {"s0": {"min_val": 2, "max_val": 8}}
    yield built(tiny.write)


def _write_script(body: str, folder: Path) -> None:
    script(folder, net(body), module("Net", w=X), [X[0]], traced=[X])


def scripts() -> Iterator[Files]:
    """Iterate over archives with code."""
    for body in BODIES:
        yield built(partial(_write_script, body))


TARGETS = (
    Target("pt2", programs, lambda folder, rng: convert(folder / "net.pt2", rng), (), program),
    Target(
        "torchscript", scripts, lambda folder, rng: convert(folder / "net.pt", rng, {"x": [2, 3]}), (), code
    ),
)
