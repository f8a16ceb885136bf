"""Small TensorFlow models, built of protobuf messages in code."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import xdlc
from xdlc.converter.tensorflow.messages import TYPES, message

NUMBERS = {name: number for number, name in TYPES.items()}


class Type(str):
    """Name of a data type, as a value of an attribute."""


class Shape(tuple):
    """Sizes, as a value of an attribute; None for unknown ones."""


class Function(str):
    """Name of a function, as a value of an attribute."""


FLOAT = Type("float32")


def set_shape(target: Any, sizes: Sequence[int | None] | None) -> None:
    target.SetInParent()
    if sizes is None:
        target.unknown_rank = True
    for size in sizes or ():
        target.dim.add(size=-1 if size is None else size)


def set_tensor(target: Any, array: np.ndarray) -> None:
    target.dtype = NUMBERS[array.dtype.name]
    set_shape(target.tensor_shape, array.shape)
    target.tensor_content = np.ascontiguousarray(array).tobytes()


def set_value(target: Any, value: Any) -> None:
    if isinstance(value, list | tuple) and not isinstance(value, Shape):
        target.list.SetInParent()
        for element in value:
            if isinstance(element, Function):
                target.list.func.add(name=element.encode())
            elif isinstance(element, Type):
                target.list.type.append(NUMBERS[element])
            elif isinstance(element, Shape):
                set_shape(target.list.shape.add(), element)
            elif isinstance(element, bytes):
                target.list.s.append(element)
            elif isinstance(element, float):
                target.list.f.append(element)
            else:
                target.list.i.append(element)
    elif isinstance(value, Type):
        target.type = NUMBERS[value]
    elif isinstance(value, Function):
        target.func.name = value.encode()
    elif isinstance(value, Shape):
        set_shape(target.shape, value)
    elif isinstance(value, np.ndarray | np.generic):
        set_tensor(target.tensor, np.asarray(value))
    elif isinstance(value, bool):
        target.b = value
    elif isinstance(value, int):
        target.i = value
    elif isinstance(value, float):
        target.f = value
    else:
        target.s = value.encode() if isinstance(value, str) else value


def add_node(nodes: Any, op: str, name: str, inputs: Sequence[str] = (), **attributes: Any) -> None:
    node = nodes.add(name=name.encode(), op=op.encode(), input=[each.encode() for each in inputs])
    for key, value in attributes.items():
        set_value(node.attr.add(key=key.encode()).value, value)


class Graph:
    """A graph in the making."""

    def __init__(self) -> None:
        self.proto = message("GraphDef")
        self.proto.versions.producer = 100

    def node(self, op: str, name: str, inputs: Sequence[str] = (), **attributes: Any) -> Graph:
        add_node(self.proto.node, op, name, inputs, **attributes)
        return self

    def input(self, name: str, *sizes: int | None, dtype: str = "float32") -> Graph:
        return self.node("Placeholder", name, dtype=Type(dtype), shape=Shape(sizes))

    def const(self, name: str, array: Any) -> Graph:
        array = np.asarray(array)
        return self.node("Const", name, value=array, dtype=Type(array.dtype.name))

    def function(
        self,
        name: str,
        arguments: Sequence[str],
        returned: dict[str, str],
        nodes: Sequence[tuple[str, str, Sequence[str], dict[str, Any]]],
    ) -> Graph:
        function = self.proto.library.function.add()
        function.signature.name = name.encode()
        for each in arguments:
            function.signature.input_arg.add(name=each.encode(), type=1)
        for key, value in returned.items():
            function.signature.output_arg.add(name=key.encode(), type=1)
            function.ret.add(key=key.encode(), value=value.encode())
        for op, node, inputs, attributes in nodes:
            add_node(function.node_def, op, node, inputs, **attributes)
        return self

    def save(self, path: Path) -> Path:
        path.write_bytes(self.proto.SerializeToString())
        return path


def evaluate(
    op: str,
    *arrays: Any,
    constant: Sequence[int] = (),
    outputs: int = 1,
    notices: list[str] | None = None,
    **attributes: Any,
) -> Any:
    """Return the outputs of a converted single node, an array or a list."""
    graph, feeds = Graph(), {}
    for index, each in enumerate(arrays):
        array = np.asarray(each)
        if index in constant:
            graph.const(f"in{index}", array)
        else:
            graph.input(f"in{index}", *array.shape, dtype=array.dtype.name)
            feeds[f"in{index}"] = array
    graph.node(op, "op", [f"in{index}" for index in range(len(arrays))], **attributes)
    for index in range(outputs):
        graph.node("Identity", f"out{index}", [f"op:{index}"])
    with tempfile.TemporaryDirectory() as folder:
        path = graph.save(Path(folder) / "m.pb")
        model = xdlc.convert(path, notify=[].append if notices is None else notices.append)
        found = xdlc.run(model, feeds)
    results = [found[f"out{index}:0"] for index in range(outputs)]
    return results[0] if outputs == 1 else results
