"""Files of TensorFlow's messages, binary or as text, and the graphs in them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xdlc import ir
from xdlc.converter.protobuf_scan import Blobs, without_blobs
from xdlc.converter.tensorflow.boundary import Boundary
from xdlc.converter.tensorflow.content import Content
from xdlc.converter.tensorflow.messages import LAYOUT, message
from xdlc.converter.tensorflow.nodes import text
from xdlc.converter.tensorflow.variables import Variables
from xdlc.errors import ModelError

LARGEST_TEXT = 1 << 28
"""Bytes of a file of text that is read."""


@dataclass(slots=True)
class Loaded:
    """A model as its files state it.

    Attributes:
        boundary: Inputs and outputs.
    """

    content: Content
    boundary: Boundary
    variables: Variables

    @property
    def nbytes(self) -> int:
        """Size of the file of the graph."""
        return self.content.file.size if self.content.file is not None else 0


def graph_def(path: Path) -> Loaded:
    """Return the content of a GraphDef file.

    Raises:
        ModelError: If it is not one.
        StorageError: If it cannot be read.
    """
    graph, file, blobs = parsed(path, "GraphDef", "graph")
    content = content_of(graph, file, blobs, path)
    variables = Variables(dict(content.nodes), None, None, str(path))
    return Loaded(content, Boundary(version=graph.versions.producer), variables)


def parsed(
    path: str | os.PathLike[str], kind: str, root: str
) -> tuple[Any, ir.MappedFile | None, Blobs | None]:
    """Return a file's message, the file, and the large data left in it.

    The last two are None for text.

    Args:
        root: The same as ``LAYOUT`` names it.

    Raises:
        ModelError: If the file is another message.
        StorageError: If it cannot be read.
    """
    from google.protobuf.message import DecodeError

    file = ir.MappedFile(path)
    root_message = message(kind)
    if _is_text(bytes(file.view(0, min(file.size, 4096)))):
        _parse_text(file, root_message, kind)
        return root_message, None, None
    layout = replace(LAYOUT, root=root)
    stripped, blobs = without_blobs(file.view(0, file.size), layout, str(path), file.release)
    try:
        root_message.ParseFromString(stripped)
    except DecodeError as error:
        raise _no_message(kind, file.path, "protobuf cannot parse it") from error
    file.release(0, file.size)
    return root_message, file, blobs


def _is_text(head: bytes) -> bool:
    """Return whether a file is text: a binary one begins with a key and a number."""
    return (
        bool(head)
        and head.lstrip()[:1].isalpha() | head.startswith(b"#")
        and b"\0" not in head
        and all(byte >= 32 or byte in b"\t\r\n" for byte in head)
    )


def _parse_text(file: ir.MappedFile, root_message: Any, kind: str) -> None:
    from google.protobuf import text_format

    if file.size > LARGEST_TEXT:
        fix = "write it as a binary file"
        raise ModelError(f"is too large for text: {file.size} bytes", where=str(file.path), fix=fix)
    try:
        text_format.Parse(bytes(file.view(0, file.size)).decode(), root_message, allow_unknown_field=True)
    except (text_format.ParseError, UnicodeDecodeError, RecursionError, ValueError) as error:
        reason = (
            str(error).splitlines()[0][:200] if not isinstance(error, RecursionError) else "it nests too deep"
        )
        raise _no_message(kind, file.path, reason) from error


def _no_message(kind: str, path: Path, reason: str) -> ModelError:
    return ModelError(
        f"is not a TensorFlow {kind}, or is damaged: {reason}",
        where=str(path),
        fix="check that the path names a complete file",
    )


def content_of(
    graph: Any, file: ir.MappedFile | None, blobs: Blobs | None, path: Path, definitions: Iterable[Any] = ()
) -> Content:
    """Return the content of a ``GraphDef``.

    Raises:
        ModelError: If two nodes have one name.
    """
    nodes = {text(node.name): node for node in graph.node}
    if len(nodes) != len(graph.node):
        raise ModelError("two nodes have the same name", where=str(path), fix="export the model again")
    functions = {text(each.signature.name): each for each in graph.library.function}
    return Content(nodes, functions, {text(each.name): each for each in definitions}, file, blobs, str(path))
