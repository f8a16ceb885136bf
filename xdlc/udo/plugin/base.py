"""Base class of plugins, its decorator form, and the attributes of hooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from xdlc.errors import UsageError, nearest_names
from xdlc.opdefs.model import TensorDef
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.opdefs.source_match import Kernel, SourceNode, attributes_named
from xdlc.udo.plugin.kinds import Kind


class Attributes(Mapping[str, Any]):
    """The attributes of a node, as ``parse_params`` sees them.

    Of a path, ``my_param.alpha``, an end that no other has is enough; one that several have is an error.
    A part before its end, ``my_param``, is the message: attributes of its own, or a list of such.

    Args:
        prefix: Path of the message that has them, with a dot at its end.
        read: Paths that were read; shared by the messages of a node.

    Example:
        >>> attributes = Attributes({"axis": 1, "keepdims": 0})
        >>> attributes["axis"], attributes.get("axes", ()), attributes.unread
        (1, (), ('keepdims',))
        >>> Attributes({"fast_param.block.0.size": 2, "fast_param.block.1.size": 3})["block"][1]["size"]
        3
    """

    def __init__(self, attributes: Mapping[str, Any], prefix: str = "", read: set[str] | None = None) -> None:
        self._values = dict(attributes)
        self._prefix = prefix
        self._read: set[str] = set() if read is None else read

    @property
    def unread(self) -> tuple[str, ...]:
        """Names of the attributes that were not read."""
        return tuple(name for name in self._values if f"{self._prefix}{name}" not in self._read)

    def __getitem__(self, name: str) -> Any:
        found = self._found(name)
        if found is None:
            return self._message(name)
        self._read.add(f"{self._prefix}{found}")
        return self._values[found]

    def _message(self, name: str) -> Attributes | list[Attributes]:
        """Return the message of a path, or the messages of a repeated field."""
        paths = self._paths(name)
        if not paths:
            raise KeyError(name)
        if len(paths) > 1:
            fix = f"write {paths[0]}, for example"
            raise UsageError(f"message {name!r} is ambiguous: {' or '.join(paths)}", fix=fix)
        start = f"{paths[0]}."
        inner = {path[len(start) :]: value for path, value in self._values.items() if path.startswith(start)}
        parts: dict[str, dict[str, Any]] = {}
        for path, value in inner.items():
            number, _, rest = path.partition(".")
            parts.setdefault(number, {})[rest] = value
        start = f"{self._prefix}{start}"
        if not all(number.isdecimal() for number in parts):
            return Attributes(inner, start, self._read)
        return [
            Attributes(parts[number], f"{start}{number}.", self._read) for number in sorted(parts, key=int)
        ]

    def _paths(self, name: object) -> list[str]:
        """Return the paths of messages that a full or abbreviated name denotes."""
        parts = (path.split(".") for path in self._values)
        paths = dict.fromkeys(".".join(path[:end]) for path in parts for end in range(1, len(path)))
        return attributes_named(str(name), paths)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return self._found(name) is not None or bool(self._paths(name))

    def _found(self, name: object) -> str | None:
        if name in self._values:
            return str(name)
        found = attributes_named(str(name), self._values)
        if len(found) > 1:
            fix = f"write {found[0]}, for example, or declare the parameter with source={found[0]!r}"
            raise UsageError(f"attribute {name!r} is ambiguous: {' or '.join(found)}", fix=fix)
        return found[0] if found else None

    def need(self, name: str) -> Any:
        """Return a mandatory attribute.

        Raises:
            UsageError: If the node does not have it.
        """
        if name not in self:
            fix = nearest_names(name, self._values) or "set the attribute in the model"
            raise UsageError(f"attribute {name!r} is missing", fix=fix)
        return self[name]


class Plugin:
    """A UDO in one object: source operator, parameters, outputs and kernel.

    A subclass sets the attributes and overrides the methods that it needs; each may be left as it is.
    Wherever inputs or parameters of a built-in operator of ONNX are not declared, those of ONNX apply.

    A plugin whose kernel is Python has a method ``compute(self, inputs, params, outputs)`` too, which is
    called as functions marked by ``xdlc.udo.kernel`` are.

    Attributes:
        framework: Source framework, or several: ``onnx``, ``caffe``, ``tflite``...
        imply_type: ``TVM`` where ``build_kernel`` makes its kernel and an op without one is an error,
            ``AI_CPU`` where ``compute`` is; default: either or none.
        op_type: Operator of the source, or several; of a Python layer of Caffe ``layer`` or ``module.layer``.
        domain: Domain of the operator; None for any, and for ONNX's own where it has such an operator.
        package: Op package.
        name: Operation type in the model; default: the first ``op_type``.
        version: Version of the package; default: that which it has elsewhere, or 1.0.
        description: What it does.
        inputs: Inputs in their order: names, or ``Input(...)``.
        outputs: Outputs in their order: names, or ``Output(...)``.
        params: Kinds of the parameters by name.
        config: File beside the plugin's that holds the definition, XML or JSON, instead of the last three.
        formats: ``ND``, ``NCHW`` or ``NHWC`` of the inputs that are no weights, and of the outputs.
        weight_formats: The same of the static inputs in their order, or by name.
    """

    framework: ClassVar[str | Sequence[str]] = "onnx"
    imply_type: ClassVar[str] = ""
    op_type: ClassVar[str | Sequence[str]] = ""
    domain: ClassVar[str | None] = None
    package: ClassVar[str] = ""
    name: ClassVar[str] = ""
    version: ClassVar[str] = ""
    description: ClassVar[str] = ""
    inputs: ClassVar[Sequence[str | TensorDef]] = ()
    outputs: ClassVar[Sequence[str | TensorDef]] = ()
    params: ClassVar[Mapping[str, Kind]] = {}
    config: ClassVar[str] = ""
    formats: ClassVar[tuple[Sequence[str], Sequence[str]]] = ((), ())
    weight_formats: ClassVar[Sequence[str] | Mapping[str, str]] = ()

    _kinds: Mapping[str, Kind] = {}  # of all parameters, also those of a config or of a built-in operator

    def accepts(self, node: SourceNode) -> bool:
        """Return whether the plugin converts a node; other nodes are imported as usual."""
        return True

    def parse_params(self, node: SourceNode) -> Mapping[str, Any]:
        """Return the parameters of a node by name, as values of their kinds.

        Omitted ones get their default.  Attributes that were not read are an error.  By default each
        parameter is read from the attribute of its name, or of the ``source`` that its kind names.
        """
        sources = {name: kind.source or name for name, kind in self._kinds.items()}
        found = node.attributes
        return {name: found[source] for name, source in sources.items() if source in found}

    def infer_shape_and_type(self, op: OpView) -> TensorSpec | Sequence[TensorSpec] | None:
        """Return the outputs; None if they are not known.

        Shapes are in the layouts that the op declares, and in the source's axis order where it declares none.
        """
        return None

    def build_kernel(self, op: OpView) -> Kernel | None:
        """Return a compiled kernel of the host for an op, or None."""
        return None

    @classmethod
    def __xdlc_udo_functions__(cls) -> list[Any]:
        """Return the functions that a runtime calls of the plugin's file."""
        from xdlc.udo.plugin.python_kernel import functions_of_plugin

        return functions_of_plugin(cls) if cls.op_type else []


def overrides(plugin: Plugin, hook: str) -> bool:
    """Return whether a plugin has a hook of its own."""
    return getattr(type(plugin), hook, None) is not getattr(Plugin, hook, None)


HOOKS = ("accepts", "parse_params", "infer_shape_and_type", "build_kernel", "compute")


def plugin(**declared: Any) -> Callable[[Any], type[Plugin]]:
    """Return a decorator that makes a plugin of a class or a ``compute`` function.

    Args:
        **declared: Attributes of :class:`Plugin`; for a function also its other hooks, as functions
            without ``self``.

    Raises:
        UsageError: If there is no attribute or hook of a name.

    Example:
        >>> @plugin(op_type="Twice", package="Math", inputs=["x"], outputs=["y"])
        ... def twice(inputs, params, outputs):
        ...     return inputs[0] * 2
        >>> twice.__name__, issubclass(twice, Plugin)
        ('twice', True)
    """
    known = [name for name in vars(Plugin) if not name.startswith("_")] + ["compute"]
    for name in declared:
        if name not in known:
            raise UsageError(f"a plugin has no {name!r}", fix=nearest_names(name, known) or None)

    def make(target: Any) -> type[Plugin]:
        if isinstance(target, type):
            return _made(target, (target,) if issubclass(target, Plugin) else (target, Plugin), declared)
        if not callable(target):
            raise UsageError(
                f"plugin(...) decorates a class or a function, not {target!r}", fix="decorate a class"
            )
        if "compute" in declared:
            raise UsageError("compute is both an argument and a decorated function", fix="omit the argument")
        hooks = {name: staticmethod(declared[name]) for name in HOOKS if name in declared}
        return _made(target, (Plugin,), {**declared, **hooks, "compute": staticmethod(target)})

    return make


def _made(target: Any, bases: tuple[type, ...], declared: dict[str, Any]) -> type[Plugin]:
    body = {
        **declared,
        "__doc__": target.__doc__,
        "__module__": target.__module__,
        "__qualname__": target.__qualname__,
    }
    return type(target.__name__, bases, body)
