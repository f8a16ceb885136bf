"""Differences of two models."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from xdlc.api.models import executable, loaded
from xdlc.api.verbs import verb
from xdlc.converter.frontends import frontends
from xdlc.errors import UsageError
from xdlc.ir import Model
from xdlc.options import PathLike, spell
from xdlc.options.graphs import ConvertOptions

if TYPE_CHECKING:
    from xdlc.diff import Diff

_log = logging.getLogger(__name__)


@verb
def diff(
    before: Model | PathLike,
    after: Model | PathLike,
    *,
    ignore: Collection[str] = (),
    only: Collection[str] = (),
    input_dims: Mapping[str, Sequence[int]] | None = None,
    **options: Unpack[ConvertOptions],
) -> Diff:
    """Return the differences of two models.

    xdlc pairs ops by name, then by source node, then by structure.  A source model is converted in memory
    with the input shapes of the DLC, and compared in what both have: graphs, inputs and outputs.  For a DLC
    of format 3 and one of format 4, xdlc compares QNN operations.

    Args:
        before: A model, or the path of a DLC or of a source model.
        after: The other model.  At least one of the two is a DLC.
        ignore: Kinds of differences to omit, or groups of kinds such as ``metadata``.
            ``xdlc.diff.change`` lists the kinds.
        only: Kinds of differences to keep.  xdlc then omits all others.
        input_dims: Shapes by input name, to convert a source model.  Default: the shapes of the DLC.
        **options: Options of the conversion of a source model.

    Returns:
        The differences.  ``is_equal`` says whether there are any, ``lines()`` has them as text, and
        ``as_dict()`` as plain values.

    Raises:
        UsageError: If xdlc does not know a kind, both are source models, an option has no effect because
            none is, or no source model has the kinds to keep.
        ModelError: If a source model is not valid.
        UnsupportedOp: If xdlc cannot convert an operator of a source model.
        ContainerError: If a DLC is damaged.
        StorageError: If a file cannot be read.
    """
    from xdlc.diff import KINDS, NOT_IN_SOURCE, kinds_of
    from xdlc.diff import diff as differences

    ignored = kinds_of(ignore) | (KINDS.keys() - kinds_of(only) if only else frozenset())
    sources = [is_source(model) for model in (before, after)]
    names = names_of(before, after)
    if all(sources):
        fix = "convert one of the models: `xdlc convert`, and compare its DLC"
        raise UsageError("both models are source models", where=", ".join(names), fix=fix)
    if not any(sources):
        check_conversion({"input_dims": input_dims, **options})
        return differences(*alike(before, after), ignore=ignored, names=names)
    ignored |= NOT_IN_SOURCE
    if only and ignored >= KINDS.keys():
        compared = ", ".join(kind for kind in KINDS if kind not in NOT_IN_SOURCE)
        problem = f"no source model has {', '.join(only)} to compare"
        raise UsageError(problem, where=", ".join(names), fix=f"use some of {compared}")
    dlc = executable(after if sources[0] else before)
    source = before if sources[0] else after
    assert not isinstance(source, Model)
    converted = _converted(source, dlc, input_dims, options)
    models = (converted, dlc) if sources[0] else (dlc, converted)
    place = 0 if sources[0] else 1
    return differences(*models, ignore=ignored, names=names, source=place)


def alike(before: Model | PathLike, after: Model | PathLike) -> list[Model]:
    """Return two models: both with QNN operations unless both have layers."""
    from xdlc.converter.snpe.translate import has_layers

    models = [loaded(model) for model in (before, after)]
    if len({has_layers(model) for model in models}) == 1:
        return models
    return [executable(model, name) for model, name in zip(models, names_of(before, after), strict=True)]


def is_source(model: Model | PathLike) -> bool:
    """Return whether a file is a source model, which an importer recognizes."""
    from xdlc.converter.formats import recognize

    with suppress(OSError, ValueError):  # reading the file reports the error
        path = None if isinstance(model, Model) else Path(model)
        content = None if path is None else recognize(path)
        return path is not None and any(each.recognizes(path, content) for each in frontends().values())
    return False


def names_of(before: Model | PathLike, after: Model | PathLike) -> tuple[str, str]:
    """Return the names of two files, or their paths if the names are alike."""
    paths = [None if isinstance(model, Model) else os.fspath(model) for model in (before, after)]
    bases = [path and os.path.basename(path) for path in paths]
    first, second = paths if bases[0] == bases[1] else bases
    return first or "before", second or "after"


def check_conversion(options: Mapping[str, Any]) -> None:
    """Refuse options of a conversion if no model is a source model.

    Raises:
        UsageError: If there are any.
    """
    names = [spell(name) for name, value in options.items() if value is not None]
    if names:
        problem = f"{', '.join(names)} has no effect, because no model is a source model"
        raise UsageError(problem, fix="omit the option")


def _converted(
    source: PathLike,
    dlc: Model,
    input_dims: Mapping[str, Sequence[int]] | None,
    options: ConvertOptions,
) -> Model:
    """Return a source model, converted with the input shapes of its DLC if they fit."""
    from xdlc.api.conversion import convert

    if input_dims is None:
        own_dims = {
            tensor.name: [-1 if axis in tensor.dynamic_axes else n for axis, n in enumerate(tensor.shape)]
            for tensor in dlc.main.inputs
        }
        with suppress(UsageError):  # the DLC has other inputs, or the same in another layout
            return convert(source, input_dims=own_dims, notify=_log.debug, **options)
    return convert(source, input_dims=input_dims, notify=_log.debug, **options)
