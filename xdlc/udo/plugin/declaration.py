"""What a plugin declares, checked and in one form."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xdlc.errors import UsageError, nearest_names
from xdlc.ir import HOST_PACKAGE, NATIVE_PACKAGE
from xdlc.opdefs.model import OpDef
from xdlc.udo.plugin.base import Plugin
from xdlc.udo.plugin.builtin import Builtin, find_builtin
from xdlc.udo.plugin.configured import configured
from xdlc.udo.plugin.format_choice import all_formats, weight_formats, weight_params
from xdlc.udo.plugin.formats import Format
from xdlc.udo.plugin.kinds import Kind
from xdlc.udo.plugin.ports import Input, Output, Port, as_port, described, tensor_def

FRAMEWORKS = ("onnx", "tensorflow", "tflite", "pytorch", "caffe", "caffe2")
BUILT_IN_PACKAGES = (NATIVE_PACKAGE, HOST_PACKAGE, "snpe")
CORES = ("CPU",)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PACKAGE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


@dataclass(frozen=True, slots=True)
class Declaration:
    """What a plugin declares.

    Attributes:
        definition: The op.
        frameworks: Source frameworks.
        types: Source operators.
        domain: Their domain; None for any.
        version: Version of the package.
        inputs: Inputs by position.
        outputs: Outputs by position.
        kinds: Parameters that come from the source, by name.
        unformed: Attributes of the source that have no form.
        input_formats: Format of each input; that of a static one is how it is stored.
        output_formats: Format of each output.
    """

    definition: OpDef
    frameworks: tuple[str, ...]
    types: tuple[str, ...]
    domain: str | None
    version: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    kinds: Mapping[str, Kind]
    unformed: tuple[str, ...]
    input_formats: tuple[Format, ...]
    output_formats: tuple[Format, ...]


def declare(plugin: Plugin, file: str = "") -> Declaration:
    """Return what a plugin declares.

    Args:
        plugin: The plugin.
        file: Its file, beside which its configuration lies.

    Raises:
        UsageError: If an attribute is missing or wrong.
        XdlcError: If its configuration is wrong.
    """
    frameworks = _words(plugin.framework, "framework")
    types = _words(plugin.op_type, "op_type")
    for framework in frameworks:
        if framework not in FRAMEWORKS:
            near = nearest_names(framework, FRAMEWORKS)
            raise UsageError(
                f"there is no framework {framework!r}", fix=near or f"use one of {', '.join(FRAMEWORKS)}"
            )
    name, package = _op_name(plugin, types), _package(plugin)
    builtin = _builtin(plugin, frameworks, types)
    domain = "" if builtin is not None and plugin.domain is None else plugin.domain
    if plugin.config:
        inputs, outputs, kinds, base = configured(_beside(plugin.config, file), package, name)
    else:
        inputs = _ports(plugin.inputs, Input, "inputs") or (builtin.inputs if builtin else ())
        outputs = _ports(plugin.outputs, Output, "outputs") or (builtin.outputs if builtin else ())
        kinds = _kinds(plugin.params) or (builtin.params if builtin else {})
        base = None
    if not outputs:
        raise UsageError(
            f"{name} has no outputs, and no framework has such an operator of its own",
            fix="declare inputs and outputs, or name a config",
        )
    weights = weight_formats(plugin, inputs)
    inputs = tuple(replace(port, static=port.static or port.name in weights) for port in inputs)
    formats = all_formats(plugin, inputs, outputs, weights)
    definition = _definition(plugin, name, package, inputs, outputs, kinds, formats, weights, base)
    unformed = builtin.unformed if builtin is not None and not plugin.params else ()
    return Declaration(
        definition, frameworks, types, domain, plugin.version, inputs, outputs, kinds, unformed, *formats
    )


def _words(given: object, what: str) -> tuple[str, ...]:
    words = (given,) if isinstance(given, str) else given
    if not isinstance(words, (tuple, list)) or not words or not all(isinstance(w, str) and w for w in words):
        raise UsageError(f"{what} is {given!r}", fix=f"set {what} to a name, or to a list of names")
    return tuple(dict.fromkeys(words))


def _op_name(plugin: Plugin, types: Sequence[str]) -> str:
    name = plugin.name or types[0]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is no operation type", fix="set name to letters, digits and underscores")
    return name


def _package(plugin: Plugin) -> str:
    package = plugin.package
    if package in BUILT_IN_PACKAGES:
        raise UsageError(
            f"package {package!r} holds built-in operations, of which a plugin's must be kept apart",
            fix="set package to a name of your own",
        )
    if not isinstance(package, str) or not _PACKAGE.fullmatch(package):
        raise UsageError(f"package is {package!r}", fix="set package to the name of your op package")
    return package


def _builtin(plugin: Plugin, frameworks: Sequence[str], types: Sequence[str]) -> Builtin | None:
    domain = "" if plugin.domain == "ai.onnx" else plugin.domain
    return find_builtin(frameworks[0], types[0], domain)


def _beside(config: object, file: str) -> Path:
    if not isinstance(config, (str, os.PathLike)):
        raise UsageError(f"config is {config!r}", fix="set config to the name of a file")
    return Path(file).parent / config


def _ports(given: object, kind: type[Port], what: str) -> tuple[Port, ...]:
    if isinstance(given, (str, Port)) or not isinstance(given, Sequence):
        raise UsageError(f"{what} is {given!r}", fix=f"give a list: {what} = [...]")
    ports = tuple(as_port(item, kind) for item in given)
    names = [port.name for port in ports]
    for place, port in enumerate(ports):
        if port.name in names[:place]:
            raise UsageError(f"two {what} are named {port.name!r}", fix="give each a name of its own")
        if port.repeated and place != len(ports) - 1:
            raise UsageError(f"{port.name} is repeated and not the last of {what}", fix="put it last")
        if not port.optional and any(earlier.optional for earlier in ports[:place]):
            raise UsageError(f"{port.name} is mandatory behind an optional one", fix="put it in front")
    return ports


def _kinds(given: object) -> dict[str, Kind]:
    if not isinstance(given, Mapping):
        raise UsageError(f"params is {given!r}", fix="give kinds by name: params = {'axis': Int()}")
    for name, kind in given.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is no name of a parameter", fix="use letters, digits and underscores")
        if not isinstance(kind, Kind):
            hint = f"write {kind.__name__}()" if isinstance(kind, type) and issubclass(kind, Kind) else None
            raise UsageError(
                f"parameter {name} is {kind!r}", fix=hint or "give it a kind, like Int(default=0)"
            )
    return dict(given)


def _definition(
    plugin: Plugin,
    name: str,
    package: str,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    kinds: Mapping[str, Kind],
    formats: tuple[Sequence[Format], Sequence[Format]],
    weights: Mapping[str, Format],
    base: OpDef | None,
) -> OpDef:
    params = {held: kind.definition(held) for held, kind in kinds.items()}
    params = {**params, **(base.params if base is not None else {})}
    for port in (name for name, held in weights.items() if held.moves):
        for added in weight_params(port):
            if added.name in params:
                raise UsageError(
                    f"parameter {added.name} is what tells of the weight {port}", fix="rename it"
                )
            params[added.name] = added
    if base is not None:
        static = tuple(
            replace(held, is_static=held.is_static or held.name in weights) for held in base.inputs
        )
        return replace(base, inputs=static, params=params)
    layouts = ["" if port.static else held.layout for port, held in zip(inputs, formats[0], strict=True)]
    return OpDef(
        name,
        package,
        tuple(tensor_def(port, layout) for port, layout in zip(inputs, layouts, strict=True)),
        tuple(tensor_def(port, held.layout) for port, held in zip(outputs, formats[1], strict=True)),
        params,
        description=described(plugin.description),
        backends=CORES,
    )
