"""Vectors of a key are copied, and have the bytes of those that are written out."""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xdlc import ir
from xdlc.container import load, save
from xdlc.container.flatbuffer_encode import Alike, Made, encode
from xdlc.ir.dtype import FLOAT32, FLOAT64
from xdlc.schema._generated.dlc4_model import Attribute, Graph, Model, Node, Scalar, Tensor

NAMES = [("stride", "group"), ("group", "n1_stride"), ("n2_stride", "x"), ("n3_stride", "group"), ("a", "b")]


def attributes(names: Iterable[tuple[int, str]]) -> Iterator[Attribute]:
    for id, name in names:
        yield Attribute(
            "stride", 1, 0, tensor=Tensor(id, name, 4, (2,), -1, None, 0x132, dynamic_axes=None, unknown32=())
        )
    yield Attribute("group", role=1, scalar=Scalar(0x132, 7))


def nodes(*, alike: bool) -> Iterator[Node]:
    for index, names in enumerate(NAMES):
        numbered = list(enumerate(names, 2 * index + 1))
        vector = (
            Alike(3, partial(attributes, numbered), "key", Tensor, numbered)
            if alike
            else list(attributes(numbered))
        )
        yield Node("n" * index, "Conv2d", ["x"], [f"y{index}"], vector)  # type: ignore[arg-type]


@pytest.mark.parametrize("values", [(0.1, np.float32(0.1)), (1, True)])
def test_parameters_that_print_alike_keep_their_values(values: tuple[Any, Any], tmp_path: Path) -> None:
    graph = ir.Graph("g")
    last = graph.add_input(ir.Tensor("x", (1, 4), FLOAT32))
    for number, value in enumerate([*values, *values]):
        target = ir.Tensor(f"y{number}", (1, 4), FLOAT32)
        params = {"size": ir.Scalar(FLOAT64, value)}
        graph.append(ir.make_op(graph, "Custom", [last], [target], params, name=f"op{number}", package="own"))
        last = target
    graph.add_output(last)
    save(ir.Model({"g": graph}), tmp_path / "model.dlc")
    stored = [op.params["size"].value for op in load(tmp_path / "model.dlc").main.ops]
    assert list(map(repr, stored)) == [repr(float(value)) for value in (*values, *values)]


def test_copies_have_the_bytes_of_tables() -> None:
    made = Made(len(NAMES), partial(nodes, alike=True))
    copied = encode(Model([Graph("g", made, [])]))  # type: ignore[arg-type]
    assert copied == encode(Model([Graph("g", list(nodes(alike=False)), [])]))
