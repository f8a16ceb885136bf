"""Models in files (DLC, ONNX, encodings), and their records."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Unpack

from xdlc.api.verbs import verb
from xdlc.container.metadata import add_step
from xdlc.errors import ContainerError, UsageError, raise_all
from xdlc.ir import Graph, Model
from xdlc.ir.files import read_bytes
from xdlc.options import Notify, PathLike
from xdlc.options.graphs import OVERRIDE_MISSING, AnnotateOptions, ExportOptions

LONGEST_VERSION = 64
LONGEST_COPYRIGHT = 1 << 16
"""Bytes of the texts, in UTF-8."""


@verb
def load(path: PathLike, *, crc: bool = True) -> Model:
    """Return the model of a DLC.  Weights stay in the file until you use them.

    ``load`` also reads a context binary (``.bin``): the model then has one cache and no graphs.  To read a
    context binary, xdlc needs the vendor's library.

    Args:
        path: Path of the DLC or of the context binary.
        crc: Compare each entry with its CRC-32 when you first use the entry.  A difference then raises a
            ``ContainerError``.

    Raises:
        UsageError: If ``path`` is not a path.
        StorageError: If the file cannot be read.
        ContainerError: If the file is not a DLC, or is damaged.
        BackendError: If the file is a context binary, and the vendor's library is missing or fails.
    """
    from xdlc.container import load as load_container
    from xdlc.container.caches import is_context_binary

    if is_context_binary(path):
        from xdlc.runtime.htp.context_binary import read_binary

        return read_binary(path)
    try:
        model = load_container(path, crc=crc)
    except ContainerError:
        _refuse_other(Path(path))
        raise
    if not model.graphs:  # any zip file could be records
        _refuse_other(Path(path))
    return model


def _refuse_other(path: Path) -> None:
    """Refuse a file of another known format."""
    from xdlc.converter.formats import DLC, ZIP, recognize

    content = None
    with suppress(OSError):
        content = recognize(path)
    if content not in (None, DLC, ZIP):
        problem = f"is {content.name}, not a DLC"
        raise ContainerError(problem, where=str(path), fix=content.fix_for(path), code="XD601")


@verb
def save(model: Model, path: PathLike, version: str = "4.1", *, crc: bool = True) -> None:
    """Write a model as a DLC.  xdlc replaces an existing file in one step.

    Args:
        model: The model.
        path: Path of the DLC.
        version: Format of the DLC: ``4.1``, or ``4.0``, which more viewers read (up to 2 GiB).
        crc: Store a CRC-32 of each entry. Writing then needs about a third more time.

    Raises:
        UsageError: If xdlc does not write this version, for example format 3 (SNPE 1).
        ContainerError: If a DLC of this version cannot store a part of the model.
        StorageError: If the file cannot be written; an existing file stays unchanged.
    """
    model.save(path, version=version, crc=crc)


def loaded(model: Model | PathLike) -> Model:
    """Return the model, loaded first if it is the path of a DLC."""
    return model if isinstance(model, Model) else load(model)


def executable(model: Model | PathLike, where: str | None = None) -> Model:
    """Return the model, with layers of SNPE 1 (DLCs of format 3) as QNN operations.

    Args:
        where: Name of the model in errors.  Default: its path.

    Raises:
        UnsupportedOp: If a layer has no translation; the error lists all of them.
        ConstraintError: If a branch or a loop breaks a rule of control flow, or an op lacks an operand.
        XdlcError: As ``load`` does.
    """
    from xdlc.converter.snpe.translate import has_layers, translate
    from xdlc.opdefs.control_flow_rules import verify_control_flow
    from xdlc.opdefs.verify import verify_arity

    source = loaded(model)
    where = where or (None if isinstance(model, Model) else os.fspath(model))
    if has_layers(source):
        return translate(source, where)
    problems = [problem for graph in source.graphs.values() for problem in verify_arity(graph)]
    raise_all([*problems, *verify_control_flow(source.graphs)], where=where)
    return source


@verb
def to_onnx(model: Model | PathLike, path: PathLike, **options: Unpack[ExportOptions]) -> tuple[Path, ...]:
    """Write a model as an ONNX file for onnxruntime, and return the paths written.

    Args:
        model: The model, or the path of a DLC.
        path: Path of the ONNX file.
        **options: Options of the ONNX file.

    Returns:
        The paths of the ONNX file, and of the files with weights and encodings.

    Raises:
        UsageError: If xdlc does not know an option or the graph.
        UnsupportedOp: If ONNX cannot express some operations; the error lists the operations.
        StorageError: If a file cannot be read or written.
    """
    from xdlc.runtime.export import export

    return export(executable(model), path, **options)


@verb
def export_encodings(model: Model | PathLike, path: PathLike, version: str = "1.0.0") -> Path:
    """Write the encodings of a quantized model as JSON, and return the path.

    ``quantize`` reads the file with its option ``quantization_overrides``.

    Args:
        model: The quantized model, or the path of a DLC.
        path: Path of the JSON file.
        version: Version of the file's format: 0.4.0 to 0.6.1 (the vendor and AIMET), 1.0.0 or 2.0.0 (AIMET).

    Raises:
        UsageError: If xdlc does not know the version, or a file of this version cannot store an encoding.
        ContainerError: If the DLC is damaged.
        StorageError: If the DLC cannot be read, or the file cannot be written.
    """
    from xdlc.quant.overrides import save_encodings

    return save_encodings(executable(model), path, version)


@verb
def annotate(model: Model, *, notify: Notify | None = None, **options: Unpack[AnnotateOptions]) -> Model:
    """Store encodings, the type of floats, and texts in a model; return the model.

    Args:
        model: The model.  ``annotate`` changes the model; with ``strip_encodings``, it changes a copy.
        notify: Called with each notice, a line of text.
        **options: The encodings, the type of floats, and the texts.

    Raises:
        UsageError: If an encoding matches no tensor or does not fit its tensor, or a text is too long.
        ModelError: If xdlc cannot use the encodings of weights.
        StorageError: If a file cannot be read.
    """
    texts: dict[str, str] = {}
    if "model_version" in options:
        texts["model_version"] = _checked(str(options["model_version"]), LONGEST_VERSION, "model_version")
    if (copyright_file := options.get("copyright_file")) is not None:
        data = read_bytes(Path(copyright_file), LONGEST_COPYRIGHT)
        text = data.decode("utf-8", "replace")
        texts["model_copyright"] = _checked(text, LONGEST_COPYRIGHT, str(copyright_file))
    if options.get("strip_encodings"):
        from xdlc.quant.existing_encodings import float_model

        model, count = float_model(model)
        texts["encodings"] = f"{count} stripped"
    if options.get("remove_unused_inputs"):
        texts["removed_inputs"] = " ".join(_remove_unused(model.main)) or "none"
    overrides = options.get("quantization_overrides")
    if overrides is not None:
        from xdlc.quant.overrides.importing import store

        missing = options.get("override_missing", OVERRIDE_MISSING[0])
        texts["quantization_overrides"] = store(model, overrides, missing, notify)
    if "float_bitwidth" in options:
        from xdlc.quant.float_types import store_floats

        float_bitwidth = options["float_bitwidth"]
        for graph in model.graphs.values():
            store_floats(graph, float_bitwidth)
        texts["float_bitwidth"] = str(float_bitwidth)
    preserved = options.get("preserve_io_datatype")
    if preserved is not None:
        from xdlc.boundary.datatype import set_types

        types = dict.fromkeys(preserved, "float32")
        set_types(model, not types, types, "preserve_io_datatype")
        texts["preserve_io_datatype"] = " ".join(preserved) or "all"
    history = model.metadata.get("history") or [{}]
    args = history[-1].get("args")
    if isinstance(args, dict):
        args.update(texts)
    elif texts:
        add_step(model, "xdlc.annotate", texts)
    return model


def _remove_unused(graph: Graph) -> list[str]:
    """Remove inputs that nothing reads; return their names."""
    unused = [tensor for tensor in graph.inputs if not graph.is_read(tensor)]
    for tensor in unused:
        graph.inputs.remove(tensor)
        del graph.tensors[tensor.name]
    return [tensor.name for tensor in unused]


def _checked(text: str, most: int, where: str) -> str:
    if len(text.encode("utf-8", "surrogatepass")) > most:
        raise UsageError(f"the text is longer than {most} bytes", where=where, fix="shorten the text")
    return text
