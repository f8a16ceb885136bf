"""Models in files: DLC, ONNX, encodings."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from xdlc.api.options import PathLike, checked_path, verb
from xdlc.errors import ContainerError, raise_all
from xdlc.ir import Model


@verb
def load(path: PathLike, *, crc: bool = True) -> Model:
    """Return the model that a DLC holds; weights are read when they are used.

    Args:
        path: The file.
        crc: Whether entries that have a CRC-32 are compared with it when their bytes are first used; a
            difference is a ``ContainerError`` there.

    Raises:
        UsageError: If it is no path.
        StorageError: If the file cannot be read.
        ContainerError: If it is not a DLC, or a damaged one; other formats are named.
    """
    from xdlc.container import load as load_container

    try:
        model = load_container(checked_path(path, "a DLC"), crc=crc)
    except ContainerError:
        _refuse_other(Path(path))
        raise
    if not model.graphs:  # any zip file could be records
        _refuse_other(Path(path))
    return model


def _refuse_other(path: Path) -> None:
    """Refuse a file of another known format.

    Raises:
        ContainerError: If it is.
    """
    from xdlc.converter.formats import DLC, ZIP, recognize

    found = None
    with suppress(OSError):
        found = recognize(path)
    if found not in (None, DLC, ZIP):
        raise ContainerError(f"is {found.name}, not a DLC", where=str(path), fix=found.fix_for(path))


@verb
def save(model: Model, path: PathLike, version: str = "4.1", *, crc: bool = True) -> None:
    """Write a model as a DLC; an existing file is replaced in one step.

    Args:
        model: The model.
        path: The file.
        version: ``4.1``, or ``4.0`` for one that more viewers read, up to 2 GiB.
        crc: Whether entries get their CRC-32, which takes about a third longer.

    Raises:
        UsageError: If the version is another; format 3 (SNPE 1) is read, but not written.
        ContainerError: If something of the model has no form in a DLC of this version.
        StorageError: If the file cannot be written; an existing file is left as it was.
    """
    model.save(path, version=version, crc=crc)


def loaded(model: Model | PathLike) -> Model:
    """Return the model, or the one that a DLC holds."""
    return model if isinstance(model, Model) else load(model)


def executable(model: Model | PathLike) -> Model:
    """Return the model, or the one that a DLC holds, with executable ops alone.

    Layers of SNPE 1, as containers of format 3 hold them, are translated into QNN operations.

    Raises:
        UnsupportedOp: If a layer has no translation; all of them are listed.
        ConstraintError: If a branch or a loop breaks a rule of control flow, or an op lacks an operand.
        XdlcError: As ``load`` does.
    """
    from xdlc.converter.snpe.translate import has_layers, translate
    from xdlc.opdefs.control_flow_rules import verify_control_flow
    from xdlc.opdefs.verify import verify_arity

    source = loaded(model)
    where = None if isinstance(model, Model) else os.fspath(model)
    if has_layers(source):
        return translate(source, where)
    problems = [problem for graph in source.graphs.values() for problem in verify_arity(graph)]
    raise_all([*problems, *verify_control_flow(source.graphs)], where=where)
    return source


@verb
def to_onnx(
    model: Model | PathLike,
    path: PathLike,
    *,
    graph: str | None = None,
    encodings: str = "qdq",
    external_data: bool = False,
) -> tuple[Path, ...]:
    """Write a model as an ONNX file that onnxruntime runs, and return the paths of the files written.

    Args:
        model: The model, or the path of a DLC.
        path: The ONNX file.
        graph: Name of the graph to write; default: the first.
        encodings: ``qdq`` for QuantizeLinear and DequantizeLinear nodes, ``aimet`` for a float model and a
            file of encodings beside it, ``none`` for a float model.
        external_data: Write weights to a file of their own; always so from 2 GiB on.

    Raises:
        UsageError: If an option, or the graph that it names, is not known.
        UnsupportedOp: If operations have no form in ONNX; all of them are listed.
        StorageError: If a file cannot be read or written.
    """
    from xdlc.runtime.export import export

    return export(executable(model), path, graph=graph, encodings=encodings, external_data=external_data)


@verb
def export_encodings(model: Model | PathLike, path: PathLike, version: str = "1.0.0") -> Path:
    """Write the encodings of a quantized model as JSON, under the names of the source, and return the path.

    The file is one for the option ``quantization_overrides`` of ``quantize``.

    Args:
        model: The quantized model, or the path of a DLC.
        path: The file.
        version: Form: the vendor's and AIMET's 0.4.0 to 0.6.1, or AIMET's 1.0.0 and 2.0.0.

    Raises:
        UsageError: If there is no such version, or it has no form for an encoding.
        StorageError: If the file cannot be written.
    """
    from xdlc.quant.overrides import save_encodings

    return save_encodings(executable(model), path, version)
