"""TensorFlow operators inside TFLite files, by TensorFlow's importer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.registry import Handler
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.messages import message
from xdlc.converter.tensorflow.nodes import attribute_messages, attributes
from xdlc.converter.tensorflow.registry import handler
from xdlc.converter.tensorflow.tensors import tensor_data
from xdlc.errors import ModelError, UnsupportedOp

FLEX = "Flex"
"""Prefix of the names of custom operators that are TensorFlow's."""


def node_attributes(data: Any, where: str) -> dict[str, Any]:
    """Return the attributes of a serialized ``NodeDef``.

    Args:
        data: The message: bytes, or text if it is that too.

    Raises:
        ModelError: If it is another message.
        UnsupportedOp: If an attribute is a function.
    """
    from google.protobuf.message import DecodeError

    node_def = message("NodeDef")
    try:
        node_def.ParseFromString(data.encode() if isinstance(data, str) else data)
    except (DecodeError, TypeError) as error:
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
    tensorflow_handler = handler.find("", name) if name != type else None
    if tensorflow_handler is None:
        return None
    function = tensorflow_handler.function

    def handle(node: Node, g: Operators) -> Any:
        return function(replace(node, type=name), g)

    return tensorflow_handler._replace(function=handle)
