"""Hooks of a plugin as functions of a UDO, with their results checked."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from xdlc.errors import UsageError, raise_all
from xdlc.ir.tensor import Param
from xdlc.opdefs.op_params import parameters
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.source_match import Kernel, SourceNode, Udo
from xdlc.options import spell
from xdlc.udo.plugin.base import Attributes, Plugin, overrides
from xdlc.udo.plugin.c_kernel import BuildView
from xdlc.udo.plugin.declaration import Declaration, declare
from xdlc.udo.plugin.discovery import place_of
from xdlc.udo.plugin.kinds import REQUIRED
from xdlc.udo.plugin.numba_kernel import checked, is_numba
from xdlc.udo.plugin.user_code import user_code

Notify = Callable[[str], None] | None


@dataclass(slots=True)
class PluginHooks:
    """The hooks of one plugin.

    Attributes:
        plugin: The plugin.
        declaration: What it declares.
        place: File and line of the plugin.
        notify: Called with what the user should know, like warnings of the compiler.
    """

    plugin: Plugin
    declaration: Declaration
    place: str
    notify: Notify = None
    _built: dict[Any, bytes] = field(default_factory=dict)
    _is_noted: bool = False

    @property
    def name(self) -> str:
        """Name of the plugin's class."""
        return type(self.plugin).__name__

    def udo(self, installed: tuple[str, ...] = ()) -> Udo:
        """Return the op of the plugin, which calls these hooks.

        Args:
            installed: Notices of an installed plugin that no option names.
        """
        file, _, line = self.place.rpartition(":")
        declared = self.declaration
        return Udo(
            declared.definition,
            declared.types,
            declared.frameworks,
            declared.domain,
            f"plugin {self.name} ({Path(file).name}:{line})",
            installed,
            accepts=self.accepts,
            parse_params=self.parse_params,
            infer_shape_and_type=self.infer_shape_and_type,
            build_kernel=self.build_kernel,
        )

    def calling(self, hook: str, subject: str = "") -> AbstractContextManager[None]:
        """Name plugin and hook in the errors of user code."""
        return user_code(self.name, hook, self.place, subject)

    def accepts(self, node: SourceNode) -> bool:
        """Return whether the plugin converts a node.

        Raises:
            XdlcError: If the plugin fails.
        """
        with self.calling("accepts", node.place):
            taken = self.plugin.accepts(replace(node, attributes=Attributes(node.attributes)))
            if not isinstance(taken, bool) and type(taken).__name__ != "bool_":
                raise UsageError(f"returned {taken!r}", fix="return True or False")
        return bool(taken)

    def parse_params(self, node: SourceNode) -> dict[str, Param]:
        """Return a node's parameters, with defaults.

        Raises:
            XdlcError: If the plugin fails, returns a value that does not fit, or leaves an attribute unread.
        """
        attributes, kinds = Attributes(node.attributes), self.declaration.kinds
        values = {name: kind.default for name, kind in kinds.items() if kind.default is not REQUIRED}
        with self.calling("parse_params", node.place):
            returned = self.plugin.parse_params(replace(node, attributes=attributes))
            if not isinstance(returned, Mapping):
                raise UsageError(f"returned {type(returned).__name__}", fix="return parameters by name")
            values |= {name: value for name, value in returned.items() if value is not None}
            stated = {name: self._value(name, value) for name, value in values.items() if value is not None}
            params, issues = parameters(self.declaration.definition, stated)
            raise_all([UsageError(text, fix=fix) for text, fix in issues])
            self._check_unread([name for name in attributes.unread if name not in node.optional])
        return params

    def _value(self, name: str, value: Any) -> Any:
        try:
            return self.declaration.kinds[name].to_value(value) if name in self.declaration.kinds else value
        except UsageError as error:
            error.where = f"parameter {name!r}"
            raise

    def _check_unread(self, unread: Sequence[str]) -> None:
        if unread:
            builtin = self.declaration.builtin
            unformed = [name for name in unread if builtin is not None and name in builtin.unformed]
            why = " (graphs and similar values cannot be parameters)" if unformed else ""
            own = overrides(self.plugin, "parse_params")
            raise UsageError(
                f"the plugin ignores attribute{'s' * (len(unread) > 1)} {', '.join(map(repr, unread))}{why}",
                fix="read the attribute in parse_params" if own else "declare a parameter in params",
            )

    def infer_shape_and_type(self, op: OpView) -> tuple[TensorSpec, ...] | None:
        """Return the outputs; None if the plugin does not know them.

        Raises:
            XdlcError: If the plugin fails, or returns something else.
        """
        with self.calling("infer_shape_and_type", f"op {op.name!r}"):
            result = self.plugin.infer_shape_and_type(self.seen(op))
            if result is None:
                return None
            specs = (result,) if isinstance(result, TensorSpec) else result
            if not isinstance(specs, Sequence) or not all(isinstance(spec, TensorSpec) for spec in specs):
                raise UsageError(f"returned {result!r}", fix="return a TensorSpec for each output, or None")
            if op.outputs and len(specs) != len(op.outputs):
                raise UsageError(
                    f"returned {len(specs)} outputs instead of {len(op.outputs)}",
                    fix="return one TensorSpec for each output",
                )
            for place, spec in enumerate(specs):
                if not all(dim is None or _is_extent(dim) for dim in spec.shape):
                    raise UsageError(
                        f"output {place} has shape {list(spec.shape)}", fix="return dimensions above 0"
                    )
            return tuple(specs)

    def build_kernel(self, op: OpView) -> Kernel | None:
        """Return a compiled kernel for an op, or None.

        A function of numba is compiled for the op's types, and stays in the plugin's file.

        Raises:
            XdlcError: If the plugin fails, returns something else, or a kernel for another machine.
        """
        built = self.built(op)
        if isinstance(built, Kernel) or built is None:
            return built
        if self.notify is not None and not self._is_noted:
            self._is_noted = True
            fix = f"give the plugin's file with {spell('udo_package_path')}"
            self.notify(f"plugin {self.name}: numba compiles the kernel where you run the model: {fix}")
        return None

    def built(self, op: OpView) -> Any:
        """Return the result of ``build_kernel``: a ``Kernel``, a function, or None.

        Raises:
            XdlcError: If the plugin fails, or returns something else.
        """
        seen = self.seen(op)
        warn = None if self.notify is None else partial(self._warn, op.name)
        view = BuildView(
            seen.package, seen.type, seen.name, seen.inputs, seen.outputs, seen.params, warn, self._built
        )
        with self.calling("build_kernel", f"op {op.name!r}"):
            kernel = self.plugin.build_kernel(view)
            if kernel is None and self.plugin.imply_type.upper().endswith("TVM"):
                raise UsageError(
                    "returned None, but imply_type is 'TVM'", fix="return False in accepts for these nodes"
                )
            if is_numba(kernel):
                checked(kernel, view)
            elif kernel is not None and not isinstance(kernel, Kernel):
                raise UsageError(
                    f"returned {type(kernel).__name__}",
                    fix="return the result of compile_c, a function of numba, or None",
                )
        return kernel

    def _warn(self, op: str, text: str) -> None:
        if self.notify is not None:
            self.notify(f"plugin {self.name}, build_kernel, op {op!r}: {text}")

    def padded(self, inputs: Sequence[Any]) -> list[Any]:
        """Return inputs, padded with None for declared inputs omitted at the end."""
        declared = [tensor for tensor in self.declaration.definition.inputs if not tensor.repeated]
        return [*inputs, *[None] * (len(declared) - len(inputs))]

    def seen(self, op: OpView) -> OpView:
        """Return an op in the form for the plugin's code.

        Lists are lists, and inputs omitted at the end are None.
        """
        return replace(op, params=self.read_params(op.params), inputs=tuple(self.padded(op.inputs)))

    def read_params(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return parameters that an op stores in the form of their kinds."""
        kinds = self.declaration.kinds
        return {
            name: value if value is None or name not in kinds else kinds[name].read(value)
            for name, value in params.items()
        }


def plugin_hooks(plugin: type[Plugin], notify: Notify = None) -> PluginHooks:
    """Return the hooks of a plugin.

    Args:
        notify: Called with each line that the user should read, warnings of the compiler among them.

    Raises:
        UsageError: If the plugin cannot be made, or is not complete.
    """
    place = place_of(plugin)
    with user_code(plugin.__name__, "__init__", place):
        instance = plugin()
    with user_code(plugin.__name__, "declaration", place):
        declaration = declare(instance, place.rpartition(":")[0])
    instance._kinds = declaration.kinds
    return PluginHooks(instance, declaration, place, notify)


def mistyped(plugin: type[Plugin]) -> Iterator[str]:
    """Yield a notice for each unknown name that resembles a hook or attribute."""
    known = [name for name in dir(Plugin) if not name.startswith("_")] + ["compute"]
    for name in dir(plugin):
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.85)
        if near and name not in known and not name.startswith("_"):
            yield f"plugin {plugin.__name__} has {name!r}, which xdlc ignores: did you mean {near[0]!r}?"


def _is_extent(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool) and int(value) > 0
