"""Declarations of plugins, checked.

Operands and parameters come from one of three sources, the first that there is:

1. the op of ``config``, a file of the plugin,
2. ``inputs``, ``outputs`` and ``params`` of the plugin, each by itself,
3. the operator of the framework that ``op_type`` names (``Builtin``), for what 2 omits.

Then formats change them: an input with a format of weights is static, an activation gets the layout of its
format, and a weight whose elements move gets parameters that hold its shape in the source.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xdlc.errors import UsageError, nearest_names, raise_all
from xdlc.ir import HOST_PACKAGE, NATIVE_PACKAGE
from xdlc.json_fields import choice
from xdlc.opdefs import check_collection
from xdlc.opdefs.collections import UNSTATED, reduced
from xdlc.opdefs.model import Collection, OpDef, ParamDef, TensorDef
from xdlc.udo.config import read
from xdlc.udo.plugin.base import Plugin, overrides
from xdlc.udo.plugin.builtin import Builtin, find_builtin
from xdlc.udo.plugin.declared_tensors import DeclaredTensor, Input, Output, described, tensor_def
from xdlc.udo.plugin.formats import Format, all_formats, weight_formats, weight_params
from xdlc.udo.plugin.kinds import REQUIRED, Bool, Enum, Float, Int, Kind, Str, Tensor

FRAMEWORKS = ("onnx", "tensorflow", "tflite", "keras", "pytorch", "caffe", "caffe2")
_KERNEL_HOOKS = {"": "", "TVM": "build_kernel", "AI_CPU": "compute"}
"""Words of ``imply_type``, and the hook that each needs."""
_SCALARS: dict[str, type[Kind]] = {
    "int": Int, "uint": Int, "sfixed": Int, "ufixed": Int, "float": Float, "bool": Bool, "string": Str
}  # fmt: skip
BUILT_IN_PACKAGES = (NATIVE_PACKAGE, HOST_PACKAGE, "snpe")
CORES = ("CPU",)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PACKAGE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


@dataclass(frozen=True, slots=True)
class Declaration:
    """Declaration of a plugin, checked.

    Attributes:
        definition: The op.
        frameworks: Source frameworks.
        types: Source operators.
        domain: Their domain; None for any.
        collection: The package, with this op alone and what supplements it.
        kinds: Parameters that come from the source, by name.
        builtin: The operator that it overrides, if inputs and parameters are those of the operator.
        input_formats: Format of each input; that of a static one is how it is stored.
        output_formats: Format of each output.
    """

    definition: OpDef
    frameworks: tuple[str, ...]
    types: tuple[str, ...]
    domain: str | None
    collection: Collection
    kinds: Mapping[str, Kind]
    builtin: Builtin | None
    input_formats: tuple[Format, ...]
    output_formats: tuple[Format, ...]


def declare(plugin: Plugin, file: str = "") -> Declaration:
    """Return the declaration of a plugin.

    Args:
        file: Its file, in whose folder its configuration is.

    Raises:
        UsageError: If an attribute is missing or wrong.
        XdlcError: If its configuration is wrong.
    """
    frameworks = tuple(dict.fromkeys(word.lower() for word in _words(plugin.framework, "framework")))
    types = _words(plugin.op_type, "op_type")
    for framework in frameworks:
        if framework not in FRAMEWORKS:
            raise UsageError(f"there is no framework {framework!r}", fix=choice(framework, FRAMEWORKS))
    _check_imply_type(plugin)
    if plugin.domain is not None and not isinstance(plugin.domain, str):
        raise UsageError(
            f"domain is {plugin.domain!r}",
            fix="set domain to one name, or to None for operators of any domain",
        )
    name, package = _op_name(plugin, types), _package(plugin)
    builtin = find_builtin(frameworks[0], types[0], "" if plugin.domain == "ai.onnx" else plugin.domain)
    inputs, outputs, kinds, configuration = _signature(plugin, builtin, name, package, file)
    weights = weight_formats(plugin, inputs)
    inputs = tuple(replace(tensor, is_static=tensor.is_static or tensor.name in weights) for tensor in inputs)
    formats = all_formats(plugin, inputs, outputs, weights)
    inputs, outputs = (
        tuple(map(_with_layout, tensors, chosen))
        for tensors, chosen in zip((inputs, outputs), formats, strict=True)
    )
    moved = [name for name, chosen in weights.items() if chosen.moves]
    definition = _definition(plugin, name, package, inputs, outputs, kinds, moved, configuration)
    collection = _collection(plugin, definition, configuration)
    raise_all(check_collection(collection))
    return Declaration(
        definition,
        frameworks,
        types,
        "" if builtin is not None and plugin.domain is None else plugin.domain,
        collection,
        kinds,
        None if plugin.config or plugin.inputs or plugin.params else builtin,
        *formats,
    )


def _signature(
    plugin: Plugin, builtin: Builtin | None, name: str, package: str, file: str
) -> tuple[tuple[TensorDef, ...], tuple[TensorDef, ...], Mapping[str, Kind], Collection | None]:
    """Return operands and parameters, and the package that states them."""
    if plugin.config:
        given = [what for what in ("inputs", "outputs", "params") if getattr(plugin, what)]
        if given:
            raise UsageError(
                f"the plugin has config and {given[0]}, which exclude each other", fix="omit one attribute"
            )
        return _configured(_beside(plugin.config, file), package, name)
    inputs = _tensors(plugin.inputs, Input, "inputs") or (builtin.inputs if builtin else ())
    outputs = _tensors(plugin.outputs, Output, "outputs") or (builtin.outputs if builtin else ())
    kinds = _kinds(plugin.params) or (builtin.params if builtin else {})
    if not outputs:
        raise UsageError(
            f"{name} has no outputs, and no framework has an operator of this name",
            fix="declare inputs and outputs, or name a config",
        )
    for tensor in (*inputs, *outputs):
        if not tensor.dtypes:
            raise UsageError(
                f"{tensor.name} of {name} has no data type that tensors support",
                fix="declare inputs and outputs with their dtypes",
            )
    return inputs, outputs, kinds, None


def _configured(
    path: Path, package: str, name: str
) -> tuple[tuple[TensorDef, ...], tuple[TensorDef, ...], dict[str, Kind], Collection]:
    """Return operands and parameters of a configured op, and its package.

    Args:
        package: Package of the op.

    Raises:
        XdlcError: If the file cannot be read, breaks its rules, or has no such op.
    """
    ops = {
        (collection.package, op.name): (collection, op)
        for collection in read(path)
        for op in collection.opdefs
    }
    if (package, name) not in ops:
        names = [f"{owner}::{op}" for owner, op in ops]
        raise UsageError(
            f"the configuration has no {package}::{name}",
            where=str(path),
            fix=nearest_names(f"{package}::{name}", names) or f"use one of {', '.join(names) or 'no ops'}",
        )
    collection, definition = ops[package, name]
    return (
        definition.inputs,
        definition.outputs,
        {key: _kind_of(param) for key, param in definition.params.items()},
        reduced(collection, {name}),
    )


def _kind_of(param: ParamDef) -> Kind:
    """Return the kind of a parameter's definition."""
    default: Any = REQUIRED if param.mandatory else None
    if param.enumeration:
        return Enum(*param.enumeration, default=param.default or default)
    kind = param.dtypes[0].kind if param.dtypes else "float"
    dtype = param.dtypes[0].name if param.dtypes else None
    made = _SCALARS.get(kind, Float) if param.is_scalar else Tensor
    return made(default, dtype=dtype) if made is not Str else Str(default)


def _with_layout(tensor: TensorDef, chosen: Format) -> TensorDef:
    """Return a tensor in the layout of its format; weights keep the source's layout."""
    if tensor.is_static or not chosen.layout:
        return tensor
    if tensor.layout not in ("", "UNDEFINED", chosen.layout):
        raise UsageError(
            f"{tensor.name} has layout {tensor.layout}, but format {chosen.name} needs {chosen.layout}",
            fix="omit the layout: the format sets the layout",
        )
    return replace(tensor, layout=chosen.layout)


def _check_imply_type(plugin: Plugin) -> None:
    """Refuse an unknown ``imply_type``, or one whose hook the plugin lacks."""
    imply_type = plugin.imply_type
    word = imply_type.rpartition(":")[2].upper() if isinstance(imply_type, str) else None
    if word not in _KERNEL_HOOKS:
        near = nearest_names(str(imply_type), _KERNEL_HOOKS)
        fix = near or "use 'TVM' (build_kernel) or 'AI_CPU' (compute)"
        raise UsageError(f"there is no imply_type {imply_type!r}", fix=fix)
    hook = _KERNEL_HOOKS[word]
    if hook and not overrides(plugin, hook):
        raise UsageError(
            f"imply_type is {imply_type!r}, which needs {hook}", fix=f"write {hook}, or omit imply_type"
        )


def _words(given: object, what: str) -> tuple[str, ...]:
    words = (given,) if isinstance(given, str) else given
    if not isinstance(words, (tuple, list)) or not words or not all(isinstance(w, str) and w for w in words):
        raise UsageError(f"{what} is {given!r}", fix=f"set {what} to a name, or to a list of names")
    return tuple(dict.fromkeys(words))


def _op_name(plugin: Plugin, types: Sequence[str]) -> str:
    name = plugin.name or types[0].rpartition(".")[2]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not an op type", fix="set name to letters, digits and underscores")
    return name


def _package(plugin: Plugin) -> str:
    package = plugin.package
    if package in BUILT_IN_PACKAGES:
        raise UsageError(
            f"package {package!r} has built-in operations, so a plugin cannot use this package",
            fix="set package to a name of your own",
        )
    if not isinstance(package, str) or not _PACKAGE.fullmatch(package):
        raise UsageError(f"package is {package!r}", fix="set package to the name of your op package")
    return package


def _beside(config: object, file: str) -> Path:
    if not isinstance(config, (str, os.PathLike)):
        raise UsageError(f"config is {config!r}", fix="set config to the name of a file")
    return Path(file).parent / config


def _tensors(given: object, kind: type[DeclaredTensor], what: str) -> tuple[TensorDef, ...]:
    if isinstance(given, (str, DeclaredTensor)) or not isinstance(given, Sequence):
        raise UsageError(f"{what} is {given!r}", fix=f"give a list: {what} = [...]")
    tensors = tuple(tensor_def(item, kind) for item in given)
    names = [tensor.name for tensor in tensors]
    for place, tensor in enumerate(tensors):
        if tensor.name in names[:place]:
            raise UsageError(f"two {what} are named {tensor.name!r}", fix="use different names")
        if tensor.repeated and place != len(tensors) - 1:
            raise UsageError(
                f"{tensor.name} is repeated, but not the last of {what}", fix="move this tensor to the end"
            )
        if tensor.mandatory and not all(earlier.mandatory for earlier in tensors[:place]):
            raise UsageError(
                f"{tensor.name} is mandatory, but follows an optional tensor", fix=f"put optional {what} last"
            )
    return tensors


def _kinds(params: object) -> dict[str, Kind]:
    if not isinstance(params, Mapping):
        raise UsageError(f"params is {params!r}", fix="give kinds by name: params = {'axis': Int()}")
    for name, kind in params.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is not a parameter name", fix="use letters, digits and underscores")
        if not isinstance(kind, Kind):
            hint = f"write {kind.__name__}()" if isinstance(kind, type) and issubclass(kind, Kind) else None
            raise UsageError(
                f"parameter {name} is {kind!r}", fix=hint or "give the parameter a kind, like Int(0)"
            )
    return dict(params)


def _collection(plugin: Plugin, definition: OpDef, configuration: Collection | None) -> Collection:
    if not isinstance(plugin.version, str):
        raise UsageError(f"version is {plugin.version!r}", fix="give a string, like '1.0'")
    if configuration is not None:
        return replace(configuration, opdefs=(definition,))
    domain, version = UNSTATED
    return Collection(definition.package, domain, plugin.version or version, (definition,), ())


def _definition(
    plugin: Plugin,
    name: str,
    package: str,
    inputs: tuple[TensorDef, ...],
    outputs: tuple[TensorDef, ...],
    kinds: Mapping[str, Kind],
    moved: Sequence[str],
    configuration: Collection | None,
) -> OpDef:
    """Return the definition; a configuration's definition changes only in formats.

    ``moved`` names the weights that are stored in another order.
    """
    base = configuration.opdefs[0] if configuration is not None else None
    params = dict(base.params) if base is not None else {}
    params |= {key: kind.definition(key) for key, kind in kinds.items() if key not in params}
    for added in (param for weight in moved for param in weight_params(weight)):
        if added.name in params:
            raise UsageError(
                f"parameter {added.name} has the name of a stored weight", fix="rename the parameter"
            )
        params[added.name] = added
    if base is not None:
        return replace(base, inputs=inputs, outputs=outputs, params=params)
    return OpDef(
        name,
        package,
        inputs,
        outputs,
        params,
        description=described(plugin.description),
        backends=CORES,
    )
