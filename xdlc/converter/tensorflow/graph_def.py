"""Files of TensorFlow graphs: GraphDef, binary or as text."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from xdlc import ir
from xdlc.converter.protobuf_scan import Blobs, without_blobs
from xdlc.converter.tensorflow.graphs import Content
from xdlc.converter.tensorflow.messages import LAYOUT, message
from xdlc.converter.tensorflow.nodes import text
from xdlc.errors import ModelError


def parsed(path: str | os.PathLike[str], kind: str, root: str) -> tuple[Any, ir.MappedFile, Blobs]:
    """Return the message of a file, the file, and the large data that stay in it.

    Args:
        path: The file.
        kind: Kind of the message.
        root: The same as ``LAYOUT`` names it.

    Raises:
        ModelError: If the file is no such message.
        StorageError: If it cannot be read.
    """
    from google.protobuf.message import DecodeError

    file = ir.MappedFile(path)
    layout = replace(LAYOUT, root=root)
    stripped, blobs = without_blobs(file.view(0, file.size), layout, str(path), file.release)
    found = message(kind)
    try:
        found.ParseFromString(stripped)
    except DecodeError as error:
        raise ModelError(
            f"is no {kind} of TensorFlow, or is damaged: protobuf cannot parse it",
            where=str(path),
            fix="check that the path names a complete file",
        ) from error
    file.release(0, file.size)
    return found, file, blobs


def content_of(
    graph: Any, file: ir.MappedFile | None, blobs: Blobs | None, path: Path, definitions: Iterable[Any] = ()
) -> Content:
    """Return what a ``GraphDef`` holds.

    Raises:
        ModelError: If two nodes have one name.
    """
    nodes = {text(node.name): node for node in graph.node}
    if len(nodes) != len(graph.node):
        raise ModelError("two nodes have the same name", where=str(path), fix="export the model again")
    functions = {text(each.signature.name): each for each in graph.library.function}
    return Content(nodes, functions, {text(each.name): each for each in definitions}, file, blobs, str(path))
