"""Python functions of plugins, ``compute`` and numba's, as kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from xdlc.errors import UsageError
from xdlc.ir.data import ArrayData, TensorData
from xdlc.ir.dtype import from_numpy
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.runtime.udo.python import Mark
from xdlc.udo.plugin.base import Plugin, overrides
from xdlc.udo.plugin.hooks import PluginHooks, plugin_hooks
from xdlc.udo.plugin.numba_kernel import called, is_numba, uses_numba

Array = Any  # numpy.ndarray
Inputs = Sequence[Array | None]
_MOST_KERNELS = 64


def functions_of_plugin(plugin: type[Plugin]) -> list[tuple[Mark, Callable[..., Any]]]:
    """Return the functions of a plugin for the runtime: kernel and shape function.

    Raises:
        UsageError: If the plugin is not complete.
    """
    hooks = plugin_hooks(plugin)
    package, type = hooks.declaration.definition.package, hooks.declaration.definition.name
    functions: list[tuple[Mark, Callable[..., Any]]] = []
    if overrides(hooks.plugin, "build_kernel") and uses_numba(plugin):
        kernel = _numba_kernel(hooks)
        functions.append((Mark("kernel", package, type), _called(hooks, "build_kernel", kernel)))
    elif callable(compute := getattr(hooks.plugin, "compute", None)):

        def computed(inputs: Inputs, params: Mapping[str, Any], outputs: Sequence[TensorSpec]) -> Any:
            return compute(hooks.padded(inputs), hooks.read_params(params), outputs)

        functions.append((Mark("kernel", package, type), _called(hooks, "compute", computed)))
    if overrides(hooks.plugin, "infer_shape_and_type"):

        def outputs(op: OpView) -> Any:
            with hooks.calling("infer_shape_and_type"):
                return hooks.plugin.infer_shape_and_type(hooks.seen(op))

        outputs.__name__ = f"{plugin.__name__}.infer_shape_and_type"
        functions.append((Mark("shape_function", package, type), outputs))
    return functions


def _called(hooks: PluginHooks, hook: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel whose errors name plugin and hook."""

    def call(*arguments: Any) -> Any:
        with hooks.calling(hook):
            return kernel(*arguments)

    call.__name__ = f"{hooks.name}.{hook}"
    return call


def _numba_kernel(hooks: PluginHooks) -> Callable[..., Any]:
    """Return a kernel of numba, compiled once for each combination of operand types."""
    compiled: dict[tuple[Any, ...], Any] = {}
    definition = hooks.declaration.definition

    def spec_of(place: int, array: Array | None) -> TensorSpec | None:
        if array is None:
            return None
        is_static = definition.inputs[min(place, len(definition.inputs) - 1)].is_static
        return TensorSpec(array.shape, from_numpy(array.dtype), data=ArrayData(array) if is_static else None)

    def kernel(inputs: Inputs, params: Mapping[str, Any], outputs: Sequence[TensorSpec]) -> Any:
        specs = tuple(spec_of(place, array) for place, array in enumerate(inputs))
        values = [*params.items(), *((spec.shape, spec.dtype, spec.data) if spec else () for spec in specs)]
        key = (*(_key(part) for value in values for part in value), *outputs)
        if key not in compiled:
            if len(compiled) == _MOST_KERNELS:
                compiled.clear()
            op = OpView(definition.package, definition.name, definition.name, specs, tuple(outputs), params)
            compiled[key] = hooks.built(op)
        function = compiled[key]
        if not is_numba(function):
            fix = "return the same kind of kernel for all ops, or False in accepts"
            raise UsageError(f"build_kernel returned {type(function).__name__}", fix=fix)
        return called(function, hooks.padded(inputs), outputs)

    return kernel


def _key(value: Any) -> Any:
    """Return a hashable key that is equal for equal values and arrays."""
    array = value.numpy() if isinstance(value, TensorData) else value
    is_array = hasattr(array, "tobytes")
    return (array.shape, array.dtype, sha256(array.tobytes()).digest()) if is_array else repr(array)
