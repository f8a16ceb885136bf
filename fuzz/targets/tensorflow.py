"""TensorFlow models: a frozen graph, and a SavedModel with its variables."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.targets import Files, Target
from fuzz.targets._steps import built, convert
from fuzz.targets._sweep import SHAPES, TYPES, array, value, words_of
from tests.converter.tensorflow.tf_checkpoints import Checkpoint, save, saved_model
from tests.converter.tensorflow.tf_models import FLOAT, NUMBERS, Function, Graph, Shape, Type
from xdlc.converter.tensorflow.registry import handler

W = np.full((2, 3), 0.5, np.float32)


def operators(rng: random.Random) -> Files:
    """Return a graph of a few operators: inputs and attributes of any number and type."""
    graph, known = Graph(), sorted(handler.all())
    names = [f"x{index}" for index in range(rng.choice((1, 2, 3, 4)))]
    shape = rng.choice(SHAPES)
    for name in names:
        own, dtype = shape if rng.random() < 0.6 else rng.choice(SHAPES), rng.choice(TYPES)
        if rng.random() < 0.4:
            graph.const(name, array(rng, own, dtype))
        else:
            graph.input(name, *own, dtype=dtype)
    for index in range(rng.choice((1, 1, 1, 2, 4))):
        type = rng.choice(known)[1]
        vocabulary = words_of(handler.all()["", type].function)
        given: dict[str, Any] = {"T": Type(rng.choice(TYPES))} if rng.random() < 0.7 else {}
        for _ in range(rng.choice((0, 1, 2, 4, 6))):
            one = value(rng, vocabulary)
            if isinstance(one, list):
                one = [each.encode() if isinstance(each, str) else each for each in one]
            special = rng.randrange(12)
            one = Function("f") if special == 0 else Shape(shape) if special == 1 else one
            one = Type(rng.choice(sorted(NUMBERS))) if special == 2 else one
            one = array(rng, shape, rng.choice(TYPES)) if special == 3 else one
            given[rng.choice(vocabulary)] = one
        inputs = [rng.choice(names) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4)))]
        try:
            graph.node(type, f"n{index}", inputs, **given)
        except (TypeError, ValueError):  # a value that an attribute cannot hold
            del graph.proto.node[-1]
            continue
        names += [f"n{index}", *([f"n{index}:1"] if rng.random() < 0.2 else [])]
    if rng.random() < 0.5:
        graph.function("f", ["a"], {"r": "b:y:0"}, [("Relu", "b", ["a"], {})])
    return {"m.pb": graph.proto.SerializeToString()}


def functional() -> Graph:
    """Return a graph whose function gets an input and a variable."""
    graph = Graph().input("in", 2, 3).node("VarHandleOp", "w", dtype=FLOAT, shape=Shape((2, 3)))
    read = ("ReadVariableOp", "read", ["w"], {"dtype": FLOAT})
    graph.function(
        "body", ["x", "w"], {"out": "add:z:0"}, [read, ("AddV2", "add", ["x", "read:value:0"], {"T": FLOAT})]
    )
    return graph.node("StatefulPartitionedCall", "call", ["in", "w"], f=Function("body"), Tout=[FLOAT])


def looping() -> Graph:
    """Return a loop of TensorFlow 1, and one of functions."""
    graph = (
        Graph()
        .input("x", 2, 3)
        .const("zero", np.int32(0))
        .const("one", np.int32(1))
        .const("many", np.int32(3))
    )
    for index, first in enumerate(("zero", "x")):
        graph.node("Enter", f"e{index}", [first], frame_name="f").node(
            "Merge", f"m{index}", [f"e{index}", f"n{index}"], N=2
        )
        graph.node("Switch", f"s{index}", [f"m{index}", "c"]).node(
            "NextIteration", f"n{index}", [f"b{index}"]
        )
        graph.node("Exit", f"x{index}", [f"s{index}"])
    graph.node("AddV2", "b0", ["s0:1", "one"]).node("Tanh", "b1", ["s1:1"])
    graph.node("Less", "less", ["m0", "many"]).node("LoopCond", "c", ["less"]).node("Relu", "y", ["x1"])
    graph.function("cond", ["i"], {"r": "l:z:0"}, [("Less", "l", ["i", "i"], {})])
    graph.function("f", ["i"], {"r": "b:y:0"}, [("Relu", "b", ["i"], {})])
    return graph.node("While", "w", ["x"], cond=Function("cond"), body=Function("f"), T=[FLOAT])


def graphs() -> Iterator[Files]:
    """Iterate over graphs with branches, loops and functions, and of a few operators."""
    yield {
        "m.pb": Graph()
        .input("x", 2, 3)
        .const("w", W)
        .node("AddV2", "sum", ["x", "w"], T=FLOAT)
        .proto.SerializeToString()
    }
    yield {"m.pb": looping().proto.SerializeToString()}
    rng = random.Random(5)
    for _ in range(150):
        yield operators(rng)


def folders() -> Iterator[Files]:
    """Iterate over SavedModels, with tables that are compressed or not."""
    for kind in (0, 1):

        def write(folder: Path, kind: int = kind) -> None:
            made = saved_model(functional(), {"x": "in:0"}, {"y": "call:0"}, bound={"body": [1]})
            save(made, folder)
            held = Checkpoint().add("key", W).add("more", np.arange(8.0)).add_objects({1: "key"})
            held.save(folder / "variables" / "variables", kind=kind)

        yield built(write)


TARGETS = (
    Target("graphdef", graphs, lambda folder, rng: convert(folder / "m.pb", rng), generate=operators),
    Target("savedmodel", folders, lambda folder, rng: convert(folder, rng)),
)
