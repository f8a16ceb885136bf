"""Models in files, and what makes one ready to be executed or compiled."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from xdlc.api.options import PathLike, checked_path, verb
from xdlc.errors import ContainerError, raise_all
from xdlc.ir import Model


@verb
def load(path: PathLike) -> Model:
    """Return the model that a DLC holds; weights are read when they are used.

    Raises:
        UsageError: If it is no path.
        StorageError: If the file cannot be read.
        ContainerError: If it is not a DLC, or a damaged one; other formats are named.
    """
    from xdlc.container import load as load_container

    try:
        model = load_container(checked_path(path, "a DLC"))
    except ContainerError:
        _refuse_other(Path(path))
        raise
    if not model.graphs:  # any zip file could be records
        _refuse_other(Path(path))
    return model


def _refuse_other(path: Path) -> None:
    """Refuse what is of another format, if that is known.

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
def save(model: Model, path: PathLike, version: str = "4.1") -> None:
    """Write a model as a DLC; an existing file is replaced in one step.

    Args:
        model: The model.
        path: The file.
        version: ``4.1``, or ``4.0`` for one that more viewers read, up to 2 GiB.

    Raises:
        UsageError: If the version is another; format 3 (SNPE 1) is read, but not written.
        ContainerError: If something of the model has no form in a DLC of this version.
        StorageError: If the file cannot be written; an existing file is left as it was.
    """
    model.save(path, version=version)


def loaded(model: Model | PathLike) -> Model:
    """Return the model, or the one that a DLC holds."""
    return model if isinstance(model, Model) else load(model)


def executable(model: Model | PathLike) -> Model:
    """Return the model, or the one that a DLC holds, made of ops that something can execute.

    Layers of SNPE 1, as containers of format 3 hold them, are translated into QNN operations.

    Raises:
        UnsupportedOp: If a layer has no translation; all of them are listed.
        ConstraintError: If a branch or a loop breaks a rule of control flow.
        XdlcError: As ``load`` does.
    """
    from xdlc.converter.snpe import has_layers, translate
    from xdlc.opdefs.control_flow_rules import verify_control_flow

    source = loaded(model)
    where = None if isinstance(model, Model) else os.fspath(model)
    if has_layers(source):
        return translate(source, where)
    raise_all(verify_control_flow(source.graphs), where=where)
    return source


def preparable(model: Model | PathLike) -> Model | PathLike:
    """Return the model or path as it is given, but layers of SNPE 1 translated as ``executable`` does.

    A path lets compilers read the file itself.
    """
    from xdlc.converter.snpe import has_layers

    source = loaded(model)
    return executable(model) if has_layers(source) else model
