"""TensorFlow's handlers for operators inside TFLite files."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.registry import Handler
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.messages import message
from xdlc.converter.tensorflow.nodes import attribute_messages, attributes
from xdlc.converter.tensorflow.registry import applied, handler
from xdlc.converter.tensorflow.tensors import tensor_data
from xdlc.converter.values import Value
from xdlc.errors import ModelError, UnsupportedOp

FLEX = "Flex"
"""Prefix of the names of custom operators that are TensorFlow's."""
Inputs = Callable[[Node, Operators], "Sequence[Value | None]"]


def node_attributes(data: Any, where: str) -> dict[str, Any]:
    """Return the attributes of a serialized ``NodeDef``.

    Args:
        data: The message: bytes, or text if it is that too.

    Raises:
        ModelError: If it is another message.
        UnsupportedOp: If an attribute is a function.
    """
    try:
        node_def = message("NodeDef", data.encode() if isinstance(data, str) else data)
    except (TypeError, ValueError) as error:
        fix = "get the file again: it is damaged"
        raise ModelError("the options of the operator are not a NodeDef", where=where, fix=fix) from error

    def function(_: Any) -> Any:
        raise UnsupportedOp(
            "the operator runs a TensorFlow function, which is not in a TFLite file",
            where=where,
            fix="convert the SavedModel from which the file was made",
        )

    return attributes(
        attribute_messages(node_def), lambda tensor: tensor_data(tensor, None, None, where), function, where
    )


def handler_of(type: str) -> Handler | None:
    """Return the handler of a TensorFlow operator named as in TFLite, or None."""
    name = type.removeprefix(FLEX)
    return renamed(name) if name != type and handler.find("", name) else None


def renamed(type: str, inputs: Inputs | None = None, /, **options: Callable[[Node], Any]) -> Handler:
    """Return TensorFlow's handler of an operator, for nodes in other words.

    Args:
        type: Name of the operator in TensorFlow.
        inputs: Returns its inputs; default: those of the node.
        options: Each returns the attribute of this name; other options have the attributes' names.
    """
    tensorflow = handler.all()["", type]

    @functools.wraps(tensorflow.function)
    def handle(node: Node, g: Operators) -> Any:
        stated = {name: option(node) for name, option in options.items()}
        operands = node.inputs if inputs is None else inputs(node, g)
        return applied(node, g, type, operands, **stated)

    return tensorflow._replace(function=handle)
