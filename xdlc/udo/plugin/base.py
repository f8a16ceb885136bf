"""The class that plugins are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.source_match import Kernel, SourceNode
from xdlc.udo.plugin.kinds import Kind
from xdlc.udo.plugin.ports import Port


class Plugin:
    """An operation as one object: where it comes from, its parameters, its outputs, its kernel, its formats.

    A subclass sets the attributes and overrides the methods that it needs; each may be left as it is.
    Wherever inputs or parameters of a built-in operator of ONNX are not declared, those of ONNX apply.

    A plugin whose kernel is Python has a method ``compute(self, inputs, params, outputs)`` too, which is
    called as functions marked by ``xdlc.udo.kernel`` are.

    Attributes:
        framework: Source framework, or several; ``onnx`` has an importer now.
        op_type: Operator of the source, or several.
        domain: Domain of the operator; None for any, and for ONNX's own where it has such an operator.
        package: Op package.
        name: Operation type in the model; default: the first ``op_type``.
        version: Version of the package; default: that which it has elsewhere, or 1.0.
        description: What it does.
        inputs: Inputs in their order: names, or ``Input(...)``.
        outputs: Outputs in their order: names, or ``Output(...)``.
        params: Kinds of the parameters by name.
        config: File beside the plugin's that holds the definition, XML or JSON, instead of the last three.
        formats: Formats of the inputs that are no weights, and of the outputs.
        weight_formats: Formats of the static inputs in their order, or by name.
    """

    framework: ClassVar[str | Sequence[str]] = "onnx"
    op_type: ClassVar[str | Sequence[str]] = ""
    domain: ClassVar[str | None] = None
    package: ClassVar[str] = ""
    name: ClassVar[str] = ""
    version: ClassVar[str] = ""
    description: ClassVar[str] = ""
    inputs: ClassVar[Sequence[str | Port]] = ()
    outputs: ClassVar[Sequence[str | Port]] = ()
    params: ClassVar[Mapping[str, Kind]] = {}
    config: ClassVar[str] = ""
    formats: ClassVar[tuple[Sequence[str], Sequence[str]]] = ((), ())
    weight_formats: ClassVar[Sequence[str] | Mapping[str, str]] = ()

    _kinds: Mapping[str, Kind] = {}  # of all parameters, also those of a config or of a built-in operator

    def accepts(self, node: SourceNode) -> bool:
        """Return whether the plugin stands for a node; what it does not take goes its usual way."""
        return True

    def parse_params(self, node: SourceNode) -> Mapping[str, Any]:
        """Return the parameters of a node by name, as values of their kinds.

        What is left out gets its default.  Attributes that were not read are an error.  By default each
        parameter is read from the attribute of its name, or of the ``source`` that its kind names.
        """
        sources = {name: kind.source or name for name, kind in self._kinds.items()}
        found = node.attributes
        return {name: found[source] for name, source in sources.items() if source in found}

    def infer_shape_and_type(self, op: OpView) -> TensorSpec | Sequence[TensorSpec] | None:
        """Return the outputs; None where they are not known.

        Shapes are those of the layouts that the formats state, and in the source's axis order where they
        state none; packing does not change them.
        """
        return None

    def build_kernel(self, op: OpView) -> Kernel | None:
        """Return a kernel of the host that the DLC carries along; None if there is none for this op."""
        return None

    @classmethod
    def __xdlc_udo_functions__(cls) -> list[Any]:
        """Return what a runtime calls when it is given the plugin's file."""
        from xdlc.udo.plugin.python_kernel import functions_of_plugin

        return functions_of_plugin(cls) if cls.op_type else []


def overrides(plugin: Plugin, hook: str) -> bool:
    """Return whether a plugin has a hook of its own."""
    return getattr(type(plugin), hook, None) is not getattr(Plugin, hook, None)
