"""Recipes of batches: which models, which options, which SoCs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from xdlc.api.verbs import check_type
from xdlc.boundary.files import UniqueKeys, load_yaml
from xdlc.converter.frontends import find_frontend, frontends
from xdlc.errors import UsageError, XdlcError
from xdlc.json_fields import Fields, Node, Scope
from xdlc.options import check_values, options_of, type_of
from xdlc.options.graphs import ConvertOptions, PrepareOptions
from xdlc.options.quantizing import QuantizeOptions
from xdlc.options.running import WorkerOptions
from xdlc.targets import find_soc

SUFFIX = ".dlc"
_NAME = re.compile(r"\w[\w.+-]{0,99}")
_STEPS = ("convert", "quantize", "prepare", "cost")
_OWN: Mapping[str, Mapping[str, Any]] = {
    "convert": {"input_dims": Mapping[str, Sequence[int]]},
    "quantize": {"samples": str},
    "prepare": {"socs": str | list[str]},
}
"""Keys of a step beside the options of its verb, with their types."""
_LEFT_OUT = (*options_of(WorkerOptions), "htp_archs")
"""Options of verbs that a batch has no use for."""
_FIX = "see the format in docs/guides/batch.md"


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to make a DLC of a model.

    Attributes:
        name: Name of the variant, and of its folder.
        convert: Arguments of ``xdlc.convert``.
        quantize: Arguments of ``xdlc.quantize``; None: the DLC stays as converted.
        prepare: Arguments of ``xdlc.prepare``; None: no caches.
        cost: Whether to plan the traffic of each SoC.
    """

    name: str
    convert: Mapping[str, Any]
    quantize: Mapping[str, Any] | None
    prepare: Mapping[str, Any] | None
    cost: bool

    @property
    def socs(self) -> tuple[str, ...]:
        """Names of the SoCs that get a cache."""
        return tuple(self.prepare.get("socs", ())) if self.prepare is not None else ()

    @property
    def samples(self) -> Path | None:
        """Path of the samples."""
        return Path(self.quantize["samples"]) if self.quantize and "samples" in self.quantize else None

    def of(self, source: Path, folder: Path) -> Variant:
        """Return the variant for a model, with its places filled in.

        ``{model}`` becomes the path of the model in the folder without its suffix, ``{stem}`` the last part.

        Args:
            source: Path of the model.
            folder: Folder of the batch, which the path of the samples is relative to.
        """
        model = source.relative_to(folder).with_suffix("")
        places = {"{model}": model.as_posix(), "{stem}": model.name}
        convert, quantize, prepare = (
            _filled(step, places) for step in (self.convert, self.quantize, self.prepare)
        )
        if quantize is not None and "samples" in quantize:
            quantize["samples"] = str(folder / quantize["samples"])
        return Variant(self.name, convert, quantize, prepare, self.cost)


@dataclass(frozen=True, slots=True)
class Recipe:
    """Content of a recipe.

    Attributes:
        models: Patterns of files or folders; empty: all files that an importer recognizes.
        variants: The ways to make a DLC of each model.
    """

    models: tuple[str, ...]
    variants: tuple[Variant, ...]

    def sources(self, folder: Path, output: Path) -> list[Path]:
        """Return the models of a folder by name; omit the results.

        Args:
            folder: Absolute, as is the output.

        Raises:
            UsageError: If there is none, or a pattern is none.
        """
        matches = {path for pattern in self.models or ("**/*",) for path in _matches(folder, pattern)}
        matches = {path for path in matches if not path.is_relative_to(output)}
        sources = sorted(path for path in matches if self.models or (path.is_file() and _is_model(path)))
        if not sources:
            fix = "check the folder and the patterns of 'models'"
            raise UsageError("the batch has no models", where=str(folder), fix=fix)
        return sources


def read_recipe(path: Path) -> Recipe:
    """Return the content of a recipe.

    Raises:
        StorageError: If the file cannot be read.
        ModelError: If the file is not YAML.
        UsageError: If it has unknown keys, or values of a wrong form.
    """
    scope = Scope(str(path), UsageError)
    root = Node(load_yaml(path, _Loader, form="a recipe in YAML", fix=_FIX))
    with scope.collected():
        fields = Fields(root, "the recipe", scope, ("models", "variants", *_STEPS))
        models = tuple(fields.strings("models"))
        shared = _steps(fields, scope)
        node = fields.node("variants")
        if node is None:
            return Recipe(models, (_variant("default", shared),))
        variants = []
        members = node.members() if isinstance(node.value, dict) else ()
        if not node.value or not isinstance(node.value, dict):
            fields.wrong("variants", "a mapping of variants by name", node, "write variants: {NAME: {...}}")
        for name, member in members:
            if not _NAME.fullmatch(name):
                scope.report(member.path, f"{name!r} cannot name a folder", "use letters, digits, '-', '_'")
            own = _steps(Fields(member, "a variant", scope, _STEPS), scope)
            variants.append(_variant(name, _merged(shared, own)))
    return Recipe(models, tuple(variants))


def _matches(folder: Path, pattern: str) -> list[Path]:
    """Return the paths in a folder that match a pattern."""
    parts = Path(pattern).parts
    if parts and ".." not in parts and not Path(pattern).is_absolute():
        with suppress(ValueError):  # of a pattern like **a
            return [path for path in folder.glob(pattern) if path != folder]
    fix = "write patterns relative to the folder, like sub/*.onnx"
    raise UsageError(f"{pattern!r} does not name paths in the folder", where="models", fix=fix)


def _steps(fields: Fields, scope: Scope) -> dict[str, Any]:
    """Return the steps of the recipe or of a variant, after a check of their options."""
    mappings = {"convert": ConvertOptions, "quantize": QuantizeOptions, "prepare": PrepareOptions}
    steps: dict[str, Any] = {}
    for name in _STEPS:
        node = fields.node(name)
        if node is None:
            continue
        steps[name] = node.value
        if name == "cost":
            if not isinstance(node.value, bool):
                fields.wrong(name, "true or false", node, "write cost: true")
            continue
        if node.value is None:
            continue
        options = options_of(mappings[name])
        further = _options_of_importers() if name == "convert" else ()
        keys = [*_OWN[name], *(option for option in (*options, *further) if option not in _LEFT_OUT)]
        Fields(node, f"the step {name}", scope, keys)
        if isinstance(node.value, dict):
            try:
                chosen = {key: value for key, value in node.value.items() if key in options}
                kinds = {option: type_of(mappings[name], option) for option in options}
                for key, kind in {**kinds, **_OWN[name]}.items():
                    if key in node.value:
                        check_type(name, key, node.value[key], kind)
                check_values(mappings[name], chosen)
                if "socs" in node.value:
                    steps[name] = {**node.value, "socs": _socs(node.value["socs"])}
            except UsageError as error:
                scope.report(node.path, error.problem, error.fix or _FIX)
    return steps


def _options_of_importers() -> Iterator[str]:
    """Yield the names of options that only some importers have."""
    for frontend in frontends().values():
        yield from options_of(frontend.options)


def _merged(shared: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the steps of a variant: its options beside those of the recipe."""
    merged = {**shared, **own}
    for name in own:
        if isinstance(own[name], dict) and isinstance(shared.get(name), dict):
            merged[name] = {**shared[name], **own[name]}
    return merged


def _variant(name: str, steps: Mapping[str, Any]) -> Variant:
    convert = steps.get("convert") or {}
    return Variant(name, convert, steps.get("quantize"), steps.get("prepare"), bool(steps.get("cost")))


def _socs(names: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of SoCs without aliases; a text is one name."""
    return tuple(find_soc(name).name for name in ([names] if isinstance(names, str) else names))


def _filled(value: Any, places: Mapping[str, str]) -> Any:
    """Return a value with the places in its texts replaced."""
    if isinstance(value, str):
        for place, text in places.items():
            value = value.replace(place, text)
        return value
    if isinstance(value, dict):
        return {key: _filled(element, places) for key, element in value.items()}
    return [_filled(element, places) for element in value] if isinstance(value, list | tuple) else value


def _is_model(path: Path) -> bool:
    try:
        return path.suffix == SUFFIX or bool(find_frontend(path))
    except XdlcError:
        return False


class _Loader(UniqueKeys, yaml.SafeLoader):  # type: ignore[misc]
    """Reader of plain values."""
