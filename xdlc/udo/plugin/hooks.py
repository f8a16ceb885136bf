"""Hooks of a plugin for converters, with their results checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

from xdlc.errors import UsageError, nearest_names
from xdlc.ir.data import TensorData
from xdlc.opdefs.model import TensorDef
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.source_match import Kernel, SourceNode
from xdlc.options import spell
from xdlc.udo.plugin.base import Attributes, Plugin, overrides
from xdlc.udo.plugin.build import BuildView
from xdlc.udo.plugin.builtin import builtin_outputs
from xdlc.udo.plugin.declaration import Declaration
from xdlc.udo.plugin.formats import Format
from xdlc.udo.plugin.kinds import REQUIRED
from xdlc.udo.plugin.numba_kernel import checked, is_numba
from xdlc.udo.plugin.user_code import user_code

Values = dict[str, Any]
SOURCE_ORDER = ("", "NCHW")


class PluginHooks:
    """The hooks of one plugin.

    Args:
        declaration: What it declares.
        place: File and line of the plugin.
        notify: Called with what the user should know, like warnings of the compiler.
    """

    def __init__(
        self,
        plugin: Plugin,
        declaration: Declaration,
        place: str,
        notify: Callable[[str], None] | None = None,
    ) -> None:
        self.plugin = plugin
        self.plugin._kinds = declaration.kinds
        self.declaration = declaration
        self.place = place
        self._notify = notify
        self._built: dict[Any, bytes] = {}
        self._is_noted = False
        self._shapes = {f"{tensor.name}_shape" for tensor in declaration.definition.inputs}

    @property
    def name(self) -> str:
        """Name of the plugin's class."""
        return type(self.plugin).__name__

    def _calling(self, hook: str, subject: str) -> AbstractContextManager[None]:
        return user_code(self.name, hook, self.place, subject)

    def accepts(self, node: SourceNode) -> bool:
        """Return whether the plugin converts a node.

        Raises:
            XdlcError: If the plugin fails.
        """
        with self._calling("accepts", node.place):
            taken = self.plugin.accepts(replace(node, attributes=Attributes(node.attributes)))
            if not isinstance(taken, bool) and type(taken).__name__ != "bool_":
                raise UsageError(f"returned {taken!r}", fix="return True or False")
        return bool(taken)

    def parse_params(self, node: SourceNode) -> Values:
        """Return a node's parameters, with defaults and parameters of stored weights.

        Raises:
            XdlcError: If the plugin fails, returns an undeclared parameter, or leaves an attribute unread.
        """
        attributes = Attributes(node.attributes)
        with self._calling("parse_params", node.place):
            given = self.plugin.parse_params(replace(node, attributes=attributes))
            if not isinstance(given, Mapping):
                raise UsageError(f"returned {type(given).__name__}", fix="return parameters by name")
            values = self._resolved(given)
            self._check_unread([name for name in attributes.unread if name not in node.optional])
            return {**values, **self._weight_params(node)}

    def _resolved(self, stated: Mapping[str, Any]) -> Values:
        kinds = self.declaration.kinds
        for name in stated:
            if name not in kinds:
                fix = nearest_names(name, kinds) or "declare the parameter in params"
                raise UsageError(f"there is no parameter {name!r}", fix=fix)
        values: Values = {}
        for name, kind in kinds.items():
            if name in stated and stated[name] is not None:
                try:
                    values[name] = kind.check(stated[name])
                except UsageError as error:
                    error.where = f"parameter {name!r}"
                    error.fix = error.fix or "correct the node, or give the parameter another kind"
                    raise
            elif kind.default is REQUIRED:
                raise UsageError(
                    f"parameter {name!r} is missing", fix="set it in the model, or declare default="
                )
            elif kind.default is not None:
                values[name] = kind.default
        return values

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

        Those of an operator of the framework that it overrides are known to the framework.

        Raises:
            XdlcError: If the plugin fails, or returns something else.
        """
        builtin = self.declaration.builtin
        if builtin is not None and not overrides(self.plugin, "infer_shape_and_type"):
            tensors = (*self.declaration.definition.inputs, *self.declaration.definition.outputs)
            is_moved = any(tensor.layout not in SOURCE_ORDER for tensor in tensors)
            return None if is_moved else builtin_outputs(builtin, self.seen(op), len(op.outputs))
        with self._calling("infer_shape_and_type", f"op {op.name!r}"):
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
                bad = [dim for dim in spec.shape if dim is not None and not _is_extent(dim)]
                if bad:
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
        if self._notify is not None and not self._is_noted:
            self._is_noted = True
            fix = f"give the plugin's file with {spell('udo_package_path')}"
            self._notify(f"plugin {self.name}: numba compiles the kernel where you run the model: {fix}")
        return None

    def built(self, op: OpView) -> Any:
        """Return the result of ``build_kernel``: a ``Kernel``, a function, or None.

        Raises:
            XdlcError: If the plugin fails, or returns something else.
        """
        seen = self.seen(op)
        view = BuildView(
            seen.package,
            seen.type,
            seen.name,
            seen.inputs,
            seen.outputs,
            seen.params,
            input_formats=tuple(
                "ND" if tensor.is_static else format.name
                for tensor, format in (self.input_at(place) for place in range(len(op.inputs)))
            ),
            output_formats=tuple(self.output_at(place).name for place in range(len(op.outputs))),
            notify=None if self._notify is None else partial(self._warn, op.name),
            built=self._built,
        )
        with self._calling("build_kernel", f"op {op.name!r}"):
            for place, spec in enumerate(op.outputs):
                if self.output_at(place).is_packed and (spec is None or None in spec.shape):
                    raise open_output(place, self.output_at(place))
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
        if self._notify is not None:
            self._notify(f"plugin {self.name}, build_kernel, op {op!r}: {text}")

    def stored_inputs(self, op: OpView) -> dict[int, TensorData]:
        """Return the static inputs that are stored in a format, by position.

        Raises:
            XdlcError: If the format has no form for one.
        """
        packed: dict[int, TensorData] = {}
        for place, spec in enumerate(op.inputs):
            tensor, format = self.input_at(place)
            if tensor.is_static and spec is not None and spec.data is not None and format.moves:
                data = spec.data
                with self._calling("weight_formats", f"op {op.name!r}, input {tensor.name!r}"):
                    shape = format.packed_shape(data.shape, data.dtype.itemsize)
                packed[place] = data.transform(format.pack, shape=shape)
        return packed

    def _weight_params(self, node: SourceNode) -> Values:
        values: Values = {}
        for place, tensor in enumerate(self.declaration.definition.inputs):
            format = self.declaration.input_formats[place]
            spec = node.inputs[place] if place < len(node.inputs) else None
            if f"{tensor.name}_format" not in self.declaration.definition.params or spec is None:
                continue
            if spec.data is None:
                raise UsageError(
                    f"input {tensor.name!r} has weight format {format.name}, but the model computes the data",
                    fix="omit the input in weight_formats, or return False in accepts for these nodes",
                )
            values[f"{tensor.name}_format"] = format.name
            values[f"{tensor.name}_shape"] = [int(dim) for dim in spec.data.shape]
        return values

    def padded(self, inputs: Sequence[Any]) -> list[Any]:
        """Return inputs, padded with None for declared inputs omitted at the end."""
        declared = [tensor for tensor in self.declaration.definition.inputs if not tensor.repeated]
        return [*inputs, *[None] * (len(declared) - len(inputs))]

    def input_at(self, place: int) -> tuple[TensorDef, Format]:
        """Return the declaration and the format of an input by position."""
        last = min(place, len(self.declaration.definition.inputs) - 1)
        return self.declaration.definition.inputs[last], self.declaration.input_formats[last]

    def output_at(self, place: int) -> Format:
        """Return the format of an output by position."""
        return self.declaration.output_formats[min(place, len(self.declaration.output_formats) - 1)]

    def seen(self, op: OpView) -> OpView:
        """Return an op in the form for the plugin's code.

        Lists are lists, weights have their own shape, and inputs omitted at the end are None.
        """
        return replace(op, params=self.read_params(op.params), inputs=self._plain_inputs(op))

    def read_params(self, params: Mapping[str, Any]) -> Values:
        """Return parameters that an op stores in the form of their kinds."""
        return {name: self._read_param(name, value) for name, value in params.items()}

    def _read_param(self, name: str, value: Any) -> Any:
        kind = self.declaration.kinds.get(name)
        if value is None or (kind is None and name not in self._shapes):
            return value
        return [int(dim) for dim in value] if kind is None else kind.read(value)

    def _plain_inputs(self, op: OpView) -> tuple[TensorSpec | None, ...]:
        inputs = self.padded(op.inputs)
        for place, tensor in enumerate(self.declaration.definition.inputs[: len(inputs)]):
            shape = op.params.get(f"{tensor.name}_shape")
            spec = inputs[place]
            if f"{tensor.name}_format" in op.params and shape is not None and spec is not None:
                inputs[place] = replace(spec, shape=tuple(int(dim) for dim in shape))
        return tuple(inputs)


def open_output(place: int, format: Format) -> UsageError:
    """Return the error of an output that has a format and an open shape."""
    return UsageError(
        f"output {place} has dynamic dimensions, but format {format.name} needs fixed dimensions",
        fix="set the dimensions of the model's inputs, or use format ND",
    )


def _is_extent(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool) and int(value) > 0
