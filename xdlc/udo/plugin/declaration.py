"""Declarations of plugins, checked.

Operands and parameters come from one of three sources, the first that there is:

1. the op of ``config``, a file of the plugin,
2. ``inputs``, ``outputs`` and ``params`` of the plugin, each by itself,
3. the operator of the framework that ``op_type`` names (``Builtin``), for what 2 omits.

Then formats add layouts: ``NHWC`` and ``NCHW`` are layouts of OpDef, ``ND`` is the source's order.  An input
with a format of weights is static.  Packed formats like NC1HWC0 are no layouts: kernels pack by themselves.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xdlc.errors import UsageError, nearest_names, raise_all
from xdlc.ir import HOST_PACKAGE, NATIVE_PACKAGE
from xdlc.json_fields import choice
from xdlc.opdefs.collections import UNSTATED, reduced
from xdlc.opdefs.model import Collection, OpDef, TensorDef
from xdlc.opdefs.semantics import check_collection
from xdlc.udo.config import read
from xdlc.udo.plugin.base import Plugin, overrides
from xdlc.udo.plugin.builtin import Builtin, find_builtin
from xdlc.udo.plugin.kinds import REQUIRED, Kind
from xdlc.udo.plugin.tensors import Input, described

FRAMEWORKS = ("onnx", "tensorflow", "tflite", "keras", "pytorch", "caffe", "caffe2")
_KERNEL_HOOKS = {"": "", "TVM": "build_kernel", "AI_CPU": "compute"}
"""Words of ``imply_type``, and the hook that each needs."""
BUILT_IN_PACKAGES = (NATIVE_PACKAGE, HOST_PACKAGE, "snpe")
FORMATS = {"ND": "", "NCHW": "NCHW", "NHWC": "NHWC"}
"""Formats, and the layouts that they mean."""
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
    """

    definition: OpDef
    frameworks: tuple[str, ...]
    types: tuple[str, ...]
    domain: str | None
    collection: Collection
    kinds: Mapping[str, Kind]
    builtin: Builtin | None


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
    if plugin.config:
        collection, kinds = _configured(plugin, file, package, name)
    else:
        collection, kinds = _declared(plugin, builtin, package, name)
    (definition,) = collection.opdefs
    inputs, outputs = _with_formats(plugin, definition.inputs, definition.outputs)
    definition = replace(definition, inputs=inputs, outputs=outputs)
    collection = replace(collection, opdefs=(definition,))
    raise_all(check_collection(collection))
    return Declaration(
        definition,
        frameworks,
        types,
        "" if builtin is not None and plugin.domain is None else plugin.domain,
        collection,
        kinds,
        None if plugin.config or plugin.inputs or plugin.params else builtin,
    )


def _declared(
    plugin: Plugin, builtin: Builtin | None, package: str, name: str
) -> tuple[Collection, Mapping[str, Kind]]:
    """Return a package with the op that a plugin or ONNX declares, and its kinds."""
    inputs = _tensors(plugin.inputs, "inputs") or (builtin.inputs if builtin else ())
    outputs = _tensors(plugin.outputs, "outputs") or (builtin.outputs if builtin else ())
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
    if not isinstance(plugin.version, str):
        raise UsageError(f"version is {plugin.version!r}", fix="give a string, like '1.0'")
    definition = OpDef(
        name,
        package,
        inputs,
        outputs,
        {key: kind.named(key) for key, kind in kinds.items()},
        described(plugin.description),
        backends=("CPU",),
    )
    domain, version = UNSTATED
    return Collection(package, domain, plugin.version or version, (definition,), ()), kinds


def _configured(plugin: Plugin, file: str, package: str, name: str) -> tuple[Collection, Mapping[str, Kind]]:
    """Return the package of a configured op, and kinds of its parameters.

    Raises:
        XdlcError: If the file cannot be read, breaks its rules, or has no such op.
    """
    extra = [what for what in ("inputs", "outputs", "params") if getattr(plugin, what)]
    if extra:
        raise UsageError(
            f"the plugin has config and {extra[0]}, which exclude each other", fix="omit one attribute"
        )
    if not isinstance(plugin.config, str | os.PathLike):
        raise UsageError(f"config is {plugin.config!r}", fix="set config to the name of a file")
    path = Path(file).parent / plugin.config
    ops = {(each.package, op.name): (each, op) for each in read(path) for op in each.opdefs}
    if (package, name) not in ops:
        names = [f"{owner}::{op}" for owner, op in ops]
        raise UsageError(
            f"the configuration has no {package}::{name}",
            where=str(path),
            fix=nearest_names(f"{package}::{name}", names) or f"use one of {', '.join(names) or 'no ops'}",
        )
    collection, definition = ops[package, name]
    kinds = {
        key: Kind(param, REQUIRED if param.mandatory else None) for key, param in definition.params.items()
    }
    return reduced(collection, {name}), kinds


def _with_formats(
    plugin: Plugin, inputs: tuple[TensorDef, ...], outputs: tuple[TensorDef, ...]
) -> tuple[tuple[TensorDef, ...], tuple[TensorDef, ...]]:
    """Return inputs and outputs in the layouts that their formats mean."""
    formats, weights = plugin.formats, plugin.weight_formats
    if isinstance(formats, str) or not isinstance(formats, Sequence) or len(formats) != 2:
        raise UsageError(f"formats is {formats!r}", fix="give two lists, of inputs and of outputs")
    if isinstance(weights, Mapping):
        names = [tensor.name for tensor in inputs]
        for name in weights:
            if name not in names:
                raise UsageError(
                    f"weight_formats names {name!r}, which is not an input",
                    fix=nearest_names(str(name), names) or f"use names of {', '.join(names)}",
                )
        inputs = tuple(
            replace(tensor, is_static=tensor.is_static or tensor.name in weights) for tensor in inputs
        )
        weights = [weights.get(tensor.name, "ND") for tensor in inputs if tensor.is_static]
    static = iter(_layouts(weights, [tensor for tensor in inputs if tensor.is_static], "static inputs"))
    moving = iter(_layouts(formats[0], [tensor for tensor in inputs if not tensor.is_static], "inputs"))
    return (
        tuple(next(static if tensor.is_static else moving) for tensor in inputs),
        tuple(_layouts(formats[1], outputs, "outputs")),
    )


def _layouts(formats: object, tensors: Sequence[TensorDef], what: str) -> list[TensorDef]:
    """Return tensors in the layouts of their formats; none: as they are."""
    if isinstance(formats, str) or not isinstance(formats, Sequence):
        raise UsageError(f"formats of {what} are {formats!r}", fix="give a list")
    layouts = [_layout(name) for name in formats]
    if layouts and len(layouts) != len(tensors):
        names = ", ".join(tensor.name for tensor in tensors) or "none"
        raise UsageError(
            f"formats has {len(layouts)} of {what}, but there are {len(tensors)}: {names}",
            fix="name one format for each; list formats of weights in weight_formats",
        )
    return [
        _with_layout(tensor, layout)
        for tensor, layout in zip(tensors, layouts or [""] * len(tensors), strict=True)
    ]


def _layout(name: object) -> str:
    """Return the layout that a format means.

    Raises:
        UsageError: If the format is packed, or there is no such format.
    """
    plain = str(name).removeprefix("DOMI_TENSOR_")
    if plain not in FORMATS:
        near = nearest_names(plain, FORMATS, cutoff=0.8)
        raise UsageError(
            f"a DLC has no format {name!r}: tensors stay {', '.join(FORMATS)}",
            fix=near or "pack the tensors in the kernel, as examples/plugins/fast_conv.py does",
        )
    return FORMATS[plain]


def _with_layout(tensor: TensorDef, layout: str) -> TensorDef:
    if not layout or tensor.layout == layout:
        return tensor
    if tensor.layout not in ("", "UNDEFINED"):
        raise UsageError(
            f"{tensor.name} has layout {tensor.layout}, but its format needs {layout}",
            fix="omit the layout: the format sets the layout",
        )
    return replace(tensor, layout=layout)


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


def _tensors(listed: object, what: str) -> tuple[TensorDef, ...]:
    if isinstance(listed, str | TensorDef) or not isinstance(listed, Sequence):
        raise UsageError(f"{what} is {listed!r}", fix=f"give a list: {what} = [...]")
    tensors = tuple(Input(item) if isinstance(item, str) else item for item in listed)
    for tensor in tensors:
        if not isinstance(tensor, TensorDef):
            raise UsageError(f"{what} hold {tensor!r}", fix="list names, or Input(...) and Output(...)")
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
            raise UsageError(f"parameter {name} is {kind!r}", fix="give the parameter a kind, like Int(0)")
    return dict(params)
