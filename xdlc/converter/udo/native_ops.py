"""Replacement of native ops by UDOs (``UseDefaultTranslation``)."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from xdlc import ir
from xdlc.container.opnames import NARROW
from xdlc.converter.udo.binding import with_defaults
from xdlc.converter.udo.diagnostics import OPTIONAL
from xdlc.errors import UnsupportedOp, UsageError, XdlcError, nearest_names, raise_all
from xdlc.ir import NATIVE_PACKAGE, Graph, Model, Op, Param, Scalar, Tensor
from xdlc.opdefs import loader
from xdlc.opdefs.defaults import default_value
from xdlc.opdefs.model import OpDef, TensorDef
from xdlc.opdefs.op_params import Issue, parameters
from xdlc.opdefs.op_view import make_view, plain_value
from xdlc.opdefs.source_match import SourceNode, Udo, UdoSet
from xdlc.options import spell

FRAMEWORK = "qnn"
_LAYOUTS = ("", "NHWC", "UNDEFINED", "BACKEND_SPECIFIC")


def check_replacements(custom: UdoSet) -> None:
    """Refuse definitions that replace an operation that QNN lacks.

    Raises:
        UsageError: If there are some, or if two replace the same; a ProblemList for several.
    """
    types = {*loader.all_types(), *NARROW}
    raise_all(
        [
            UsageError(
                f"{op.full_name} has UseDefaultTranslation, but QNN has no operation {name!r}",
                where=op.source or None,
                fix=nearest_names(name, types)
                or "set UseDefaultTranslation to false: it then matches the operator of the source",
            )
            for name, op in custom.replacements().items()
            if name not in types
        ]
    )


def replace_native(model: Model, custom: UdoSet) -> tuple[list[Udo], list[XdlcError]]:
    """Replace native ops by the UDOs that are defined for them.

    An op keeps its operands, which are the inputs and outputs of the definition in their order, and its
    parameters, which the definition must have under the same names.  QNN's older names of one operation of
    a wider type, like ``Relu``, denote that operation.

    Returns:
        The definitions that replaced something, and what does not fit.
    """
    replacements, used = custom.replacements(), list[Udo]()
    problems: list[XdlcError] = []
    for graph in model.graphs.values() if replacements else ():
        for op in list(graph.ops):
            replacement = _replacement(op, replacements)
            if replacement is None or not _accepts(replacement, op):
                continue
            used.append(replacement)
            params, issues = _params(op, replacement)
            inputs, wrong = with_defaults(replacement.definition, op.name, op.inputs, params)
            problems += [
                UnsupportedOp(
                    f"{replacement.full_name} cannot replace this op: {text}",
                    where=f"graph {graph.name!r}: op {op.name!r} ({op.type})",
                    fix=fix,
                    node=op.name,
                    op=op.type,
                )
                for text, fix in [*issues, *wrong]
            ]
            if not issues and not wrong:
                op.type, op.package, op.params = (
                    replacement.definition.name,
                    replacement.definition.package,
                    params,
                )
                _rename(op)
                _set_inputs(graph, op, inputs)
    return used, problems


def _replacement(op: Op, replacements: dict[str, Udo]) -> Udo | None:
    if op.package != NATIVE_PACKAGE:
        return None
    narrow = (name for name, wide in NARROW.items() if wide == (op.type, op.param("operation")))
    return next((replacements[name] for name in (op.type, *narrow) if name in replacements), None)


def _accepts(custom: Udo, op: Op) -> bool:
    if custom.accepts is None:
        return True
    definition = loader.find(op.type) or custom.definition
    view = make_view(definition, op.name, op.inputs, op.params)
    names = tuple(tensor.name for tensor in op.outputs)
    return custom.accepts(
        SourceNode(FRAMEWORK, op.type, NATIVE_PACKAGE, op.name, view.inputs, names, view.params)
    )


def _params(op: Op, custom: Udo) -> tuple[dict[str, Param], list[Issue]]:
    """Return an op's parameters for its replacement, and misfits."""
    definition, native = custom.definition, loader.find(op.type)
    native_params = dict(op.params)
    if definition.name != op.type:
        native_params.pop("operation", None)  # the narrower type states it
    defaults = _defaults(native)
    values = {
        name: _plain(native, definition, name, param)
        for name, param in native_params.items()
        if name in definition.params or not _is_default(param, defaults.get(name))
    }
    values = {name: value for name, value in defaults.items() if name in definition.params} | values
    params, issues = parameters(definition, values)
    issues += _sides("input", definition.inputs, op.inputs)
    issues += _sides("output", definition.outputs, op.outputs)
    return params, issues


def _defaults(native: OpDef | None) -> dict[str, Any]:
    """Return QNN's defaults of the parameters of an op."""
    found = {}
    for param in native.params.values() if native is not None else ():
        with contextlib.suppress(ValueError):  # some depend on the shapes of operands
            found[param.name] = default_value(param)
    return {name: value for name, value in found.items() if value is not None}


def _is_default(param: Param, default: Any) -> bool:
    return isinstance(param, Scalar) and param.value == default


def _plain(native: OpDef | None, definition: OpDef, name: str, param: Param) -> Any:
    """Return the value of a native parameter, or its name in an enumeration."""
    known = definition.params.get(name)
    named = native if native is not None and known is not None and known.enumeration else definition
    return plain_value(named, name, param)


def _sides(what: str, places: tuple[TensorDef, ...], tensors: tuple[Tensor | None, ...]) -> Iterator[Issue]:
    repeats = bool(places) and places[-1].repeated
    if len(tensors) > len(places) and not repeats:
        yield Issue(
            f"the op has {len(tensors)} {what}s, but the definition has {len(places)}",
            f"define the {what}s that QNN's operation has",
        )
    for index, place in enumerate(places):
        tensor = tensors[index] if index < len(tensors) else None
        if place.layout not in _LAYOUTS:
            yield Issue(
                f"{what} {index} ({place.name!r}) has layout {place.layout}, but a native op is channel-last",
                "remove the layout, or set UseDefaultTranslation to false",
            )
        if tensor is None and place.mandatory:
            yield Issue(f"{what} {index} ({place.name!r}) is missing", OPTIONAL)
        elif tensor is not None and place.is_static and not tensor.is_static:
            yield Issue(
                f"{what} {index} ({place.name!r}) is computed",
                "remove IsStaticTensor (JSON: static) from the definition",
            )


def _set_inputs(graph: Graph, op: Op, inputs: list[Tensor | None]) -> None:
    for tensor in inputs:
        if tensor is not None and graph.tensors.get(tensor.name) is not tensor:
            tensor.name = graph.unique_name(tensor.name)
            graph.add_tensor(tensor)
    graph.set_inputs(op, inputs)


def _rename(op: Op) -> None:
    for name, param in op.params.items():
        if isinstance(param, Tensor):
            param.name = f"{op.name}_{name}"


_NAME = re.compile(r"(?=.{1,128}$)[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


def check_package_name(name: str) -> None:
    """Refuse an invalid name for a package of native operations.

    Raises:
        UsageError: If it is not a name of a package, or of one with a meaning of its own.
    """
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{spell('package_name')} is {name!r}",
            fix="use letters, digits and _, no digit first; dots may separate names",
        )
    if name in (ir.HOST_PACKAGE, "snpe"):
        problem = f"{spell('package_name')} is {name!r}, which is reserved for xdlc's ops"
        raise UsageError(problem, fix="choose another name")


def rename_package(model: ir.Model, name: str, notices: list[str]) -> None:
    """Move every native op to a package, and add a notice of it.

    Args:
        notices: Takes the notice.
    """
    if name == ir.NATIVE_PACKAGE:
        return
    count = 0
    for graph in model.graphs.values():
        for op in graph.ops:
            if op.package == ir.NATIVE_PACKAGE:
                op.package = name
                count += 1
    notices.append(
        f"{count} op(s) have package {name!r} instead of {ir.NATIVE_PACKAGE!r}: they need a runtime that "
        "loads this package, and xdlc has no rules of its own for them"
    )
