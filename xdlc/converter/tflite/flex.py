"""Operators of TensorFlow inside of TFLite files: attributes and handlers of TensorFlow's importer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from xdlc.converter.operators.applying import Operators
from xdlc.converter.operators.handlers import Handler
from xdlc.converter.session.node import Node
from xdlc.converter.tensorflow.messages import message
from xdlc.converter.tensorflow.nodes import attribute_messages, attributes
from xdlc.converter.tensorflow.registry import handler
from xdlc.converter.tensorflow.tensors import tensor_data
from xdlc.errors import ModelError, UnsupportedOp

FLEX = "Flex"
"""Start of the names of custom operators that are TensorFlow's."""


def node_attributes(data: Any, where: str) -> dict[str, Any]:
    """Return the attributes of a serialized ``NodeDef``.

    Args:
        data: The message: bytes, or text if it is that too.

    Raises:
        ModelError: If it is no such message.
        UnsupportedOp: If an attribute is a function.
    """
    from google.protobuf.message import DecodeError

    found = message("NodeDef")
    try:
        found.ParseFromString(data.encode() if isinstance(data, str) else data)
    except (DecodeError, TypeError) as error:
        fix = "the file is damaged: get it again"
        raise ModelError("its options are no NodeDef", where=where, fix=fix) from error

    def function(_: Any) -> Any:
        raise UnsupportedOp(
            "runs a function of TensorFlow, which a TFLite file does not hold",
            where=where,
            fix="convert the SavedModel that the file was made from",
        )

    return attributes(
        attribute_messages(found), lambda tensor: tensor_data(tensor, None, None, where), function, where
    )


def handler_of(type: str) -> Handler | None:
    """Return the handler of an operator of TensorFlow, by its name in TFLite; None if there is none."""
    name = type.removeprefix(FLEX)
    found = handler.find("", name) if name != type else None
    if found is None:
        return None
    function = found.function

    def handle(node: Node, g: Operators) -> Any:
        return function(replace(node, type=name), g)

    return found._replace(function=handle)
