"""Files of TensorFlow's messages and SavedModel folders: graphs, signatures."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

from xdlc import ir
from xdlc.converter.protobuf_fields import Blobs, without_blobs
from xdlc.converter.session.boundary import UNNAMED
from xdlc.converter.tensorflow.boundary import PLACEHOLDERS, Boundary
from xdlc.converter.tensorflow.content import Content
from xdlc.converter.tensorflow.messages import LAYOUT, dtype_name, message
from xdlc.converter.tensorflow.nodes import attribute_messages, port, text
from xdlc.converter.tensorflow.tensors import shape_of
from xdlc.converter.tensorflow.variables import Variables
from xdlc.errors import ModelError, UnsupportedOp, UsageError, nearest_names
from xdlc.options import spell

LARGEST_TEXT = 1 << 28
"""Bytes of a file of text that is read."""


@dataclass(slots=True)
class Loaded:
    """A model in the form of its files.

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
    file = ir.MappedFile(path)
    if _is_text(bytes(file.view(0, min(file.size, 4096)))):
        return _parsed_text(file, kind), None, None
    layout = replace(LAYOUT, root=root)
    stripped, blobs = without_blobs(file.view(0, file.size), layout, str(path), file.release)
    try:
        root_message = message(kind, stripped)
    except ValueError as error:
        raise _no_message(kind, file.path, str(error)) from error
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


def _parsed_text(file: ir.MappedFile, kind: str) -> Any:
    from google.protobuf import text_format

    if file.size > LARGEST_TEXT:
        fix = "save the model as a binary file"
        raise ModelError(
            f"the file has {file.size} bytes, which is too large for text", where=str(file.path), fix=fix
        )
    try:
        content = bytes(file.view(0, file.size)).decode()
        return text_format.Parse(content, message(kind), allow_unknown_field=True)
    except (text_format.ParseError, UnicodeDecodeError, RecursionError, ValueError) as error:
        reason = (
            str(error).splitlines()[0][:200]
            if not isinstance(error, RecursionError)
            else "the text nests too deeply"
        )
        raise _no_message(kind, file.path, reason) from error


def _no_message(kind: str, path: Path, reason: str) -> ModelError:
    return ModelError(
        f"the file is not a TensorFlow {kind}, or is damaged: {reason}",
        where=str(path),
        fix="pass the path of a complete file",
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


DEFAULT_TAG = "serve"
DEFAULT_SIGNATURE = "serving_default"
_NO_SIGNATURE = ("__saved_model_init_op", "__saved_model_train_op")
_FILES = ("saved_model.pb", "saved_model.pbtxt")


def saved_model(path: Path, tag: str | None, signature: str | None, *, has_outputs: bool) -> Loaded:
    """Return the content of a SavedModel.

    Args:
        path: The folder, or the file ``saved_model.pb`` or ``saved_model.pbtxt`` in it.
        tag: Tags of the graph, separated by commas; default: ``serve``, or the only graph.
        signature: Key of the signature; default: ``serving_default``, or the only one.
        has_outputs: Whether the caller knows where the graph ends, and needs no signature.

    Raises:
        ModelError: If it is not a SavedModel, or damaged.
        UsageError: If there is no such tag or signature, or one must be chosen.
        UnsupportedOp: If the signature takes strings.
        StorageError: If it cannot be read.
    """
    file = path
    if path.is_dir():
        file = next((path / name for name in _FILES if (path / name).is_file()), path / _FILES[0])
    model, mapped, blobs = parsed(file, "SavedModel", "saved_model")
    graphs = {",".join(text(each) for each in meta.meta_info_def.tags): meta for meta in model.meta_graphs}
    if not graphs:
        raise ModelError("the model contains no graph", where=str(file), fix="save the model again")
    meta = _chosen(graphs, tag, DEFAULT_TAG, "saved_model_tag", "graph", str(file))
    prefix = file.parent / "variables" / "variables"
    loaded = _loaded(meta, mapped, blobs, file, prefix)
    _add_signature(loaded.boundary, meta, signature, str(file), needed=not has_outputs)
    return loaded


def meta_graph(path: Path, signature: str | None) -> Loaded:
    """Return the content of a ``.meta`` file, and of the checkpoint next to it.

    Raises:
        ModelError: If it is another file, or its checkpoint has an unsupported form.
        UsageError: If there is no such signature.
        StorageError: If it cannot be read.
    """
    meta, mapped, blobs = parsed(path, "MetaGraphDef", "meta_graph")
    prefix = path.with_suffix("")
    index = prefix.with_name(prefix.name + ".index")
    if prefix.is_file() and not index.is_file():
        raise ModelError(
            "the checkpoint has the V1 format, a file without .index, which is not supported",
            where=str(prefix),
            fix="load the model in TensorFlow, and save it with tf.compat.v1.train.Saver()",
        )
    loaded = _loaded(meta, mapped, blobs, path, prefix)
    _add_signature(loaded.boundary, meta, signature, str(path), needed=False)
    return loaded


def _loaded(meta: Any, mapped: ir.MappedFile | None, blobs: Blobs | None, file: Path, prefix: Path) -> Loaded:
    content = content_of(meta.graph_def, mapped, blobs, file, meta.meta_info_def.stripped_op_list.op)
    objects = meta.object_graph_def if meta.HasField("object_graph_def") else None
    variables = Variables(dict(content.nodes), prefix, objects, str(file))
    return Loaded(content, Boundary(version=meta.graph_def.versions.producer), variables)


def _chosen(entries: dict[str, Any], key: str | None, usual: str, option: str, kind: str, where: str) -> Any:
    """Return the entry of a key, by default of the usual one, or the only one.

    Raises:
        UsageError: If it is missing or ambiguous.
    """
    chosen_key = key if key is not None else usual if usual in entries else None
    if chosen_key is None and len(entries) == 1:
        return next(iter(entries.values()))
    chosen = entries.get(chosen_key or "")
    if chosen is None and chosen_key is not None:  # tags in another order
        tags = set(chosen_key.split(","))
        chosen = next((entry for name, entry in entries.items() if set(name.split(",")) == tags), None)
    if chosen is None:
        names = ", ".join(map(repr, sorted(entries)))
        problem = (
            f"the model has no {kind} {chosen_key!r}"
            if chosen_key is not None
            else f"the model has several {kind}s"
        )
        near = nearest_names(chosen_key, entries) if chosen_key else None
        fix = near or f"choose one: {spell(option)} NAME"
        raise UsageError(f"{problem}; there are {names or 'none'}", where=where, fix=fix)
    return chosen


def _add_signature(boundary: Boundary, meta: Any, key: str | None, where: str, *, needed: bool) -> None:
    """Set inputs and outputs of a boundary by a signature."""
    signatures = {
        text(entry.key): entry.value
        for entry in meta.signature_def
        if text(entry.key) not in _NO_SIGNATURE and entry.value.outputs
    }
    if key is None and not signatures:
        if needed and not any(map(_is_input, meta.graph_def.node)):
            fix = "save it by tf.saved_model.save(model, folder, signatures=function) or model.export(folder)"
            raise ModelError("the model has neither a signature nor an input", where=where, fix=fix)
        return
    if key is None and not needed and DEFAULT_SIGNATURE not in signatures and len(signatures) > 1:
        return
    chosen = _chosen(signatures, key, DEFAULT_SIGNATURE, "saved_model_signature_key", "signature", where)
    strings = _strings(chosen.inputs)
    if strings and key is None and not needed:
        return
    if strings:
        others = sorted(name for name, signature in signatures.items() if signature is not chosen)
        raise UnsupportedOp(
            f"the signature has string inputs: {', '.join(strings)}",
            where=where,
            fix=f"begin and end at tensors of numbers with {spell('out_node')} and {spell('input_dims')}"
            + (
                f"; or choose another signature: {spell('saved_model_signature_key')} {quote(others[0])}"
                if others
                else ""
            ),
        )
    boundary.inputs = _values(chosen.inputs)
    boundary.outputs = _values(chosen.outputs)
    for entry in chosen.inputs:
        sizes = shape_of(entry.value.tensor_shape, where)
        boundary.shapes[text(entry.key)] = (
            None if sizes is None else [UNNAMED if size is None else size for size in sizes]
        )
        boundary.dtypes[text(entry.key)] = dtype_name(entry.value.dtype)


def _is_input(node: Any) -> bool:
    """Return whether a node is a numeric placeholder; string placeholders are paths."""
    dtype = attribute_messages(node).get("dtype")
    return text(node.op) in PLACEHOLDERS and (dtype is None or dtype_name(dtype.type) != "string")


def _values(entries: Sequence[Any]) -> dict[str, str]:
    """Return the names of values by the keys of a signature, in the order of the keys."""
    return {text(each.key): str(port(text(each.value.name))) for each in sorted(entries, key=lambda e: e.key)}


def _strings(entries: Sequence[Any]) -> list[str]:
    return sorted(text(each.key) for each in entries if dtype_name(each.value.dtype) == "string")
