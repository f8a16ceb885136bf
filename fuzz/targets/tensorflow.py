"""TensorFlow models: a frozen graph, and a SavedModel with its variables."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import text_format

from fuzz.targets import Files, Target
from fuzz.targets._steps import built, convert
from fuzz.targets._sweep import SHAPES, TYPES, array, drawn
from tests.converter.tensorflow.tf_checkpoints import Checkpoint
from tests.converter.tensorflow.tf_models import NUMBERS, Function, Graph, Shape, Type
from tests.hostile.test_tensorflow import W, branching, doubling, folder_of, looping, plain
from xdlc.converter.tensorflow.messages import message
from xdlc.converter.tensorflow.registry import handler


def operators(rng: random.Random) -> Files:
    """Return a graph of a few operators: inputs and attributes of any number and type."""
    graph = Graph()
    names = [f"x{index}" for index in range(rng.choice((1, 2, 3, 4)))]
    shape = rng.choice(SHAPES)
    for name in names:
        own, dtype = shape if rng.random() < 0.6 else rng.choice(SHAPES), rng.choice(TYPES)
        if rng.random() < 0.4:
            graph.const(name, array(rng, own, dtype))
        else:
            graph.input(name, *own, dtype=dtype)
    for index in range(rng.choice((1, 1, 1, 2, 4))):
        type, drawn_attributes = drawn(rng, handler)
        attributes: dict[str, Any] = {"T": Type(rng.choice(TYPES))} if rng.random() < 0.7 else {}
        for key, one in drawn_attributes.items():
            of_list = (
                [each.encode() if isinstance(each, str) else each for each in one]
                if isinstance(one, list)
                else one
            )
            special = (
                Function("f"),
                Shape(shape),
                Type(rng.choice(sorted(NUMBERS))),
                array(rng, shape, "int32"),
            )
            attributes[key] = rng.choice(special) if rng.random() < 0.3 else of_list
        inputs = [rng.choice(names) for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4)))]
        try:
            graph.node(type, f"n{index}", inputs, **attributes)
        except (TypeError, ValueError):  # a value that an attribute cannot hold
            del graph.proto.node[-1]
            continue
        names += [f"n{index}", *([f"n{index}:1"] if rng.random() < 0.2 else [])]
    if rng.random() < 0.5:
        graph.function("f", ["a"], {"r": "b:y:0"}, [("Relu", "b", ["a"], {})])
    return {"m.pb": graph.proto.SerializeToString()}


def graphs() -> Iterator[Files]:
    """Iterate over graphs with functions and loops."""
    for graph in (plain(), looping(), branching(3), doubling(3)):
        yield {"m.pb": graph.proto.SerializeToString()}


def texts() -> Iterator[Files]:
    """Iterate over graphs as text."""
    for files in graphs():
        yield {"m.pbtxt": text_format.MessageToString(message("GraphDef").FromString(files["m.pb"])).encode()}


def folders() -> Iterator[Files]:
    """Iterate over SavedModels, with tables that are compressed or not."""
    for kind in (0, 1):

        def write(folder: Path, kind: int = kind) -> None:
            held = Checkpoint().add("key", W).add("more", np.arange(8.0)).add_objects({1: "key"})
            folder_of(folder, held)
            held.save(folder / "variables" / "variables", kind=kind)

        yield built(write)


TARGETS = (
    Target("graphdef", graphs, lambda folder, rng: convert(folder / "m.pb", rng), generate=operators),
    Target("graphtext", texts, lambda folder, rng: convert(folder / "m.pbtxt", rng)),
    Target("savedmodel", folders, lambda folder, rng: convert(folder, rng)),
)
