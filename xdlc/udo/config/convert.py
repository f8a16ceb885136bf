"""Conversion of configuration files between OpDef XML and JSON."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xdlc.errors import UsageError, XdlcError, nearest_names, raise_all
from xdlc.ir.dtype import UINT8, UINT16, DType
from xdlc.ir.files import check_output, check_readable, kept_apart, replace_text, together
from xdlc.json_fields import choice
from xdlc.opdefs.backends import unknown as unknown_backends
from xdlc.opdefs.collections import merge
from xdlc.opdefs.model import Collection
from xdlc.opdefs.source_match import UncoveredNode
from xdlc.opdefs.xml_reader import parse_collection, schema_text
from xdlc.opdefs.xml_writer import write_collection
from xdlc.options import spell
from xdlc.udo.config.defaults import differences
from xdlc.udo.config.json_writer import write_json
from xdlc.udo.config.members import TYPES
from xdlc.udo.config.reader import Config, clashes, read_config
from xdlc.udo.config.skeleton import BACKENDS, draft

FORMS = ("xml", "json")
STDOUT = "-"
QUANTIZED = (UINT8, UINT16)
"""Types of quantized activations of a DSP in SNPE."""


@dataclass(frozen=True, slots=True)
class Converted:
    """Configurations in another form.

    Attributes:
        texts: The text of each file, by its path; under ``-`` what goes to standard output.
        notices: What the user should know, such as fields that the form does not have.
        problems: Operators of a model that cannot have a definition.
    """

    texts: dict[str, str]
    notices: tuple[str, ...]
    problems: tuple[XdlcError, ...] = ()

    def write(self) -> list[Path]:
        """Write the files, all of them or none, and return their paths.

        Raises:
            StorageError: If one cannot be written.
        """
        paths = [Path(path) for path in self.texts if path != STDOUT]
        with together():
            for path in paths:
                replace_text(path, self.texts[str(path)])
        return paths


def schema(target: str | os.PathLike[str]) -> Converted:
    """Return the XML Schema of OpDef XML as a file; target ``-`` is standard output."""
    return Converted({str(target): schema_text()}, ())


def convert(
    paths: Sequence[str | os.PathLike[str]],
    target: str | os.PathLike[str],
    *,
    form: str = "",
    package: str = "",
    extended: bool = False,
) -> Converted:
    """Return configurations as OpDef XML or JSON; nothing is written.

    Packages with the same name are merged.

    Args:
        target: File to be written, or a folder for one file a package; ``-`` for standard output.
        form: ``xml`` or ``json``; default: as the target's name ends, or else the other one.
        package: Name of the only package to take.
        extended: Whether JSON gets fields of xdlc's own for what the vendor's form does not have.

    Raises:
        StorageError: If a file cannot be read.
        ModelError: If one breaks a rule.
        UsageError: If the form is not clear, or a file cannot hold the packages.
    """
    configs = [read_config(path) for path in paths]
    raise_all(clashes(configs))
    merged = merge([collection for config in configs for collection in config.collections])
    collections = list(merged.values())
    if package:
        collections = [_chosen(collections, package)]
    where = os.fspath(target)
    form = form or _form_of(where) or _other_form(configs)
    _check_target(where, paths)
    notices = [notice for config in configs for notice in config.notices]
    known = len(notices)
    texts = render(collections, where, form, extended=extended, notices=notices)
    if form == "json" and not extended and len(notices) > known:
        notices.append(f"{spell('extended', True)} keeps the lost entries in fields that only xdlc reads")
    return Converted(texts, tuple(notices))


def drafted(
    nodes: Sequence[UncoveredNode],
    others: Sequence[XdlcError],
    model: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    package: str,
    form: str = "",
    same_shapes: bool = False,
    datatypes: Sequence[str] = (),
    backends: Sequence[str] = (),
) -> Converted:
    """Return definitions for operators without a mapping; nothing is written.

    Operators that cannot have a definition are omitted and reported as problems.

    Args:
        nodes: Their nodes.
        others: Other problems that the model has.
        target: File to be written, or a folder for one file a package; ``-`` for standard output.
        package: Name of the package.
        form: ``xml`` or ``json``; default: as the target's name ends, or else XML.
        same_shapes: Whether outputs whose shape the model does not state in full get that of the first input.
        datatypes: Names of the data types that float inputs and outputs may have; default: float32, and if a
            backend computes with fixed point those in which a quantizer stores them.
        backends: Backends that the package is for; default: the CPU.

    Raises:
        UsageError: If there are no nodes, a data type is not one of floats, there is no such backend, or one
            file cannot hold the packages.
        UnsupportedOp: If no operator can have a definition.
        ModelError: If the package's name cannot stand in a definition.
    """
    for backend, fix in unknown_backends(backends):
        raise UsageError(f"unknown backend {backend!r}", fix=fix)
    float_types = _float_types(datatypes)
    if not nodes:
        fix = "convert the model without a definition"
        if others:
            fix = (
                f"correct the model's {len(others)} other problem(s), or draft operators that xdlc maps with "
                f"{spell('operators')}: {_first(others)}"
            )
        raise UsageError("xdlc can already map every operator of the model", where=os.fspath(model), fix=fix)
    name = os.path.basename(os.fspath(model))
    drafts = draft(
        nodes, package, name, same_shapes=same_shapes, float_types=float_types, backends=backends or BACKENDS
    )
    notices = list(drafts.notices)
    if others:
        count = f"{os.fspath(model)} has {len(others)} other problem(s)"
        notices.append(f"{count}: {_first(others)}")
    where = os.fspath(target)
    _check_target(where, [model])
    texts = render(
        drafts.collections, where, form or _form_of(where) or "xml", extended=True, notices=notices
    )
    return Converted(texts, tuple(notices), drafts.problems)


def _first(problems: Sequence[XdlcError]) -> str:
    """Return the first of several problems, and the command that lists all."""
    first = problems[0]
    text = f"{first.where}: {first.problem}" if first.where else first.problem
    return f"{text}; `xdlc convert net.onnx --dry-run` lists all" if len(problems) > 1 else text


def _float_types(names: Sequence[str]) -> list[DType]:
    dtypes = []
    for name in names:
        dtype = TYPES.get(name)
        if dtype is None or not (dtype.is_float or dtype.is_fixed or dtype in QUANTIZED):
            raise UsageError(
                f"{name!r} is not a float data type",
                fix=choice(name, ("FLOAT_32", "FLOAT_16", "FIXED_8", "FIXED_16", "UINT_8", "UINT_16")),
            )
        dtypes.append(dtype)
    return dtypes


def render(
    collections: Sequence[Collection], target: str, form: str, *, extended: bool, notices: list[str]
) -> dict[str, str]:
    """Return the texts of packages by path.

    Args:
        target: File or folder to be written; ``-`` for standard output.
        form: ``xml`` or ``json``.
        extended: Whether JSON gets fields of xdlc's own.
        notices: Receives what the form does not have.

    Raises:
        UsageError: If one file cannot hold the packages.
    """
    is_folder = os.path.isdir(target)
    if form == "xml" and len(collections) > 1 and not is_folder:
        names = ", ".join(collection.package for collection in collections)
        raise UsageError(
            f"an OpDef XML file holds only one package, not {names}",
            where=target,
            fix="name an existing folder for several files, or a .json file for all packages; "
            f"{spell('package')} chooses one",
        )

    def path_of(collection: Collection) -> str:
        return str(Path(target, f"{collection.package}.{form}")) if is_folder else target

    shares = (
        [(path_of(held), [held]) for held in collections]
        if is_folder or form == "xml"
        else [(target, collections)]
    )
    return {path: _text(share, form, extended, notices) for path, share in shares}


def _text(collections: Sequence[Collection], form: str, extended: bool, notices: list[str]) -> str:
    if form == "json":
        return write_json(collections, extended=extended, notify=notices.append)
    (collection,) = collections
    text = write_collection(collection)
    after = parse_collection(text.encode(), "the XML written")
    notices += (
        f"{part}: XML cannot express {', '.join(names)}" for part, names in differences(collection, after)
    )
    return text


def _chosen(collections: Sequence[Collection], package: str) -> Collection:
    for collection in collections:
        if collection.package == package:
            return collection
    names = [collection.package for collection in collections]
    raise UsageError(
        f"there is no package {package!r}",
        fix=nearest_names(package, names) or f"use one of {', '.join(names)}",
    )


def _form_of(target: str) -> str:
    suffix = Path(target).suffix.lower().removeprefix(".")
    return suffix if suffix in FORMS else ""


def _other_form(configs: Sequence[Config]) -> str:
    forms = {"json" if config.form == "xml" else "xml" for config in configs}
    if len(forms) > 1:
        raise UsageError("the input has files in XML and JSON", fix=f"choose the output with {spell('form')}")
    return forms.pop()


def _check_target(target: str, paths: Sequence[str | os.PathLike[str]]) -> None:
    if target == STDOUT or os.path.isdir(target):
        return
    with kept_apart([]):
        for path in paths:
            if not os.path.isdir(path):
                check_readable(path)
        check_output(target)
