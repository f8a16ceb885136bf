"""Frontends: statements of each importer, and the choice of one by content."""

from __future__ import annotations

import os
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

from xdlc import converter
from xdlc.converter.formats import Format, looks_like, recognize
from xdlc.errors import ModelError, StorageError, UsageError, nearest_names
from xdlc.options import options_of, spell
from xdlc.records import record

if TYPE_CHECKING:
    from xdlc.converter.pipeline import SourceModel
    from xdlc.converter.session.diagnostics import Diagnostics
    from xdlc.ir import Model

StrPath: TypeAlias = "str | os.PathLike[str]"


class NoOptions(TypedDict):
    """Options of an importer that has only the shared options."""


@record(frozen=True)
class Frontend:
    """An importer: ``FRONTEND`` of the package ``xdlc.converter.<framework>``.

    The package imports its modules only where it reads a file, for tools list all frontends.

    Attributes:
        framework: Name of the framework, which is that of the package.
        model: A model of it, with its article: ``an ONNX model``.
        tool: Name of its tool, which is noted in the models that it makes.
        recognizes: Whether a path is a model of the framework, by content; gets the path and the format
            that ``xdlc.converter.formats`` finds there, if any.
        read: Returns the ``pipeline.SourceModel`` of a path, for ``pipeline.Options`` and the options that
            only this importer has.
        options: Typed mapping of the options that not all importers have, keywords of ``read`` and flags. In
            a tool of its importer alone they precede flags that options of all importers have.
        spellings: Further flags in its tool of options that all importers have, by their long flag.
        has_drafts: Whether UDO configurations can be drafted for the framework.
    """

    framework: str
    model: str
    tool: str
    recognizes: Callable[[Path, Format | None], bool]
    read: Callable[..., SourceModel]
    options: type = NoOptions
    spellings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    has_drafts: bool = True

    @property
    def title(self) -> str:
        """The format without its article, like ``ONNX``."""
        return self.model.partition(" ")[2].removesuffix(" model")

    def convert(
        self,
        path: StrPath,
        *,
        diagnostics: Diagnostics | None = None,
        notify: Callable[[str], None] | None = None,
        step: Callable[[str, int, int], None] | None = None,
        **options: Any,
    ) -> Model:
        """Return the model of a file; its weights are read when they are used.

        If a pass fails, the model is imported again without it.

        Args:
            diagnostics: Collects the problems of nodes and ops, which are then not raised: the result holds
                what could be converted, and is no whole model if there are any.
            notify: Called with each notice; default: the log.  Not with ``diagnostics``, which collects them.
            **options: Options of every conversion (``pipeline.Options``), and those of the importer.

        Raises:
            XdlcError: Every problem found; several make a ProblemList.
        """
        from xdlc.converter.pipeline import finish, import_model
        from xdlc.converter.session.diagnostics import Diagnostics
        from xdlc.ir.collection import collection_paused
        from xdlc.passes import FailedPass
        from xdlc.runtime.onnx_evaluator import limited

        failed: dict[str, str] = {}
        collects = diagnostics is not None
        collected = diagnostics or Diagnostics()
        while True:
            try:
                with limited(), collection_paused():
                    model = self.source_model(path, failed_passes=failed, **options)
                    imported = import_model(model, self.tool, collected, step)
                    return finish(imported, collected, collects=collects, notify=notify, step=step)
            except FailedPass as failure:
                if failure.name in failed or not failure.is_avoidable:
                    raise
                failed[failure.name] = str(failure)
            collected.reset()

    def source_model(self, path: StrPath, **options: Any) -> SourceModel:
        """Return a file as its reader returns it, for options as of ``convert``.

        Raises:
            XdlcError: If it cannot be read, or options do not fit.
        """
        from xdlc.converter.pipeline import Options

        stated = {name: value for name, value in options.items() if value is not None}
        shared = {
            name: stated.pop(name) for name in stated.keys() & {entry.name for entry in fields(Options)}
        }
        chosen = Options(**shared)
        chosen.check()
        return self.read(path, chosen, **stated)


def reads(*known: Format) -> Callable[[Path, Format | None], bool]:
    """Return the ``recognizes`` of a frontend for formats of ``formats``."""
    return lambda _path, found: found in known


def reader(framework: str) -> Callable[..., Any]:
    """Return the ``read`` of an importer, imported at the first call."""

    def read(*arguments: Any, **options: Any) -> Any:
        return import_module(f"xdlc.converter.{framework}.reader").read(*arguments, **options)

    return read


@cache
def frontends() -> Mapping[str, Frontend]:
    """Return the frontend of each package of importers that has one, by framework."""
    packages = [package.name for package in pkgutil.iter_modules(converter.__path__) if package.ispkg]
    modules = [import_module(f"xdlc.converter.{name}") for name in packages]
    return {module.FRONTEND.framework: module.FRONTEND for module in modules if hasattr(module, "FRONTEND")}


def find_frontend(path: StrPath, framework: str | None = None) -> Frontend:
    """Return the frontend for a file or folder.

    Args:
        framework: Name of its framework, whose importer then reads whatever no other recognizes; default:
            the one whose frontend recognizes the content.

    Raises:
        UsageError: If there is no such framework.
        ModelError: If no frontend recognizes it; the format is named where it is known.
        StorageError: If it cannot be read.
    """
    importers = frontends()
    if framework is not None and framework not in importers:
        fix = nearest_names(framework, importers) or f"frameworks: {', '.join(importers)}"
        raise UsageError(f"no framework {framework!r}", fix=fix)
    place = Path(path)
    try:
        recognized = recognize(place)
        fitting = [each for each in importers.values() if each.recognizes(place, recognized)]
        seen = looks_like(place) if recognized is None and not fitting else ""
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        fix = "check the path and its permissions"
        is_pair = re.fullmatch(r"[\w.-]+/[\w.-]+", str(path)) and not place.parent.exists()
        if isinstance(error, FileNotFoundError) and (is_pair or re.fullmatch(r"[\w-]+", str(path))):
            fix = "check the path; load a model of transformers by its name, and convert the module"
        raise StorageError(
            f"the file cannot be read: {reason}", where=str(path), fix=fix, code="XD801"
        ) from error
    if framework is None and fitting:
        return fitting[0]
    if framework is not None:
        chosen = importers[framework]
        if fitting and chosen not in fitting:
            raise ModelError(
                f"the file is {fitting[0].model}, not {chosen.model}",
                where=str(path),
                fix="convert it with xdlc convert",
            )
        return chosen
    models = models_of(importers.values())
    if recognized is None:
        raise ModelError(
            f"the file is neither {models} nor any other known format: {seen}",
            where=str(path),
            fix="check that the path names a complete model file",
            code="XD301",
        )
    raise ModelError(
        f"the file is {recognized.name}, not {models}",
        where=str(path),
        fix=recognized.fix_for(place),
        code="XD301",
    )


def models_of(some: Iterable[Frontend]) -> str:
    """Return the models of frontends as a phrase, like ``a Keras or an ONNX model``."""
    *first, last = (each.model for each in some)
    return f"{', '.join(first)} or {last}" if first else last


def check_own_options(frontend: Frontend, options: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Refuse options that an importer lacks.

    Args:
        options: Options by name; those that only other importers have are refused.
        own: Options of the importer alone; all others are refused.

    Raises:
        UsageError: If there is one.
    """
    names = options_of(frontend.options)
    others = {name for each in frontends().values() for name in options_of(each.options)}
    for name in (*own, *(name for name in options if name in others)):
        if name not in names:
            raise UsageError(
                f"{spell(name)} is not an option for {frontend.model}",
                fix=nearest_names(name, names) or f"omit {spell(name)}",
            )
