"""Python functions of plugins, ``compute`` and numba's, as kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any

from xdlc.errors import UsageError
from xdlc.ir.data import ArrayData, TensorData
from xdlc.ir.dtype import from_numpy
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.runtime.udo.python import Mark
from xdlc.udo.plugin.base import Plugin, overrides
from xdlc.udo.plugin.collection import plugin_hooks
from xdlc.udo.plugin.hooks import PluginHooks, open_output
from xdlc.udo.plugin.numba_kernel import called, is_numba, uses_numba
from xdlc.udo.plugin.user_code import user_code

Array = Any  # numpy.ndarray
KernelFor = Callable[[Sequence[Array | None], Mapping[str, Any], Sequence[TensorSpec]], Callable[..., Any]]
"""Returns the function to call for the inputs, parameters and outputs of an op as it stores them."""
_MOST_KERNELS = 64
REAL_BYTES = 4  # quantized activations and halves reach kernels as float32


def functions_of_plugin(plugin: type[Plugin]) -> list[tuple[Mark, Callable[..., Any]]]:
    """Return the functions of a plugin for the runtime: kernel and shape function.

    Raises:
        UsageError: If the plugin is not complete.
    """
    op, hooks = plugin_hooks(plugin)
    package, type = op.definition.package, op.definition.name
    functions: list[tuple[Mark, Callable[..., Any]]] = []
    if overrides(hooks.plugin, "build_kernel") and uses_numba(plugin):
        functions.append((Mark("kernel", package, type), _around(hooks, "build_kernel", _built_by(hooks))))
    elif callable(compute := getattr(hooks.plugin, "compute", None)):
        functions.append((Mark("kernel", package, type), _around(hooks, "compute", lambda *_: compute)))
    if overrides(hooks.plugin, "infer_shape_and_type"):

        def outputs(op: OpView) -> Any:
            with user_code(hooks.name, "infer_shape_and_type", hooks.place):
                return hooks.plugin.infer_shape_and_type(hooks.seen(op))

        outputs.__name__ = f"{plugin.__name__}.infer_shape_and_type"
        functions.append((Mark("shape_function", package, type), outputs))
    return functions


def _built_by(hooks: PluginHooks) -> KernelFor:
    """Return kernels of numba, compiled once for each combination of operand types."""
    compiled: dict[tuple[Any, ...], Any] = {}
    op = hooks.declaration.definition

    def kernel_for(
        inputs: Sequence[Array | None], params: Mapping[str, Any], outputs: Sequence[TensorSpec]
    ) -> Callable[..., Any]:
        specs = tuple(
            None
            if array is None
            else TensorSpec(
                array.shape,
                from_numpy(array.dtype),
                data=ArrayData(array) if hooks.input_at(place)[0].is_static else None,
            )
            for place, array in enumerate(inputs)
        )
        values = [*params.items(), *((spec.shape, spec.dtype, spec.data) for spec in specs if spec)]
        key = (*(_key(part) for each in values for part in each), *(spec is None for spec in specs), *outputs)
        if key not in compiled:
            if len(compiled) == _MOST_KERNELS:
                compiled.clear()
            compiled[key] = hooks.built(OpView(op.package, op.name, op.name, specs, tuple(outputs), params))
        found = compiled[key]
        if not is_numba(found):
            fix = "return the same kind of kernel for all ops, or False in accepts"
            raise UsageError(f"build_kernel returned {type(found).__name__}", fix=fix)
        return lambda given, _, outputs: called(found, given, outputs)

    return kernel_for


def _key(value: Any) -> Any:
    """Return a hashable key that is equal for equal values and arrays."""
    array = value.numpy() if isinstance(value, TensorData) else value
    is_array = hasattr(array, "tobytes")
    return (array.shape, array.dtype, sha256(array.tobytes()).digest()) if is_array else repr(array)


def _around(hooks: PluginHooks, hook: str, kernel_for: KernelFor) -> Callable[..., Any]:
    """Return a plugin's Python kernel, wrapped to convert packed formats."""

    def compute(
        inputs: Sequence[Array | None], params: Mapping[str, Any], outputs: Sequence[TensorSpec]
    ) -> Any:
        given = [_packed(hooks, place, array) for place, array in enumerate(hooks.padded(inputs))]
        specs = [_packed_spec(hooks, place, spec) for place, spec in enumerate(outputs)]
        with user_code(hooks.name, hook, hooks.place):
            kernel = kernel_for(inputs, params, outputs)
            result = kernel(given, hooks.read_params(params), specs)
        several = isinstance(result, (list, tuple))
        arrays = list(result) if several else [result]
        if len(arrays) == len(outputs):
            arrays = [_unpacked(hooks, place, array, outputs[place]) for place, array in enumerate(arrays)]
        return arrays if several else arrays[0]

    compute.__name__ = f"{hooks.name}.{hook}"
    return compute


def _packed(hooks: PluginHooks, place: int, array: Array | None) -> Array | None:
    tensor, format = hooks.input_at(place)
    return array if array is None or tensor.is_static or not format.is_packed else format.pack(array)


def _packed_spec(hooks: PluginHooks, place: int, spec: TensorSpec) -> TensorSpec:
    format = hooks.output_at(place)
    if not format.is_packed:
        return spec
    shape = tuple(dim for dim in spec.shape if dim is not None)
    if len(shape) != len(spec.shape):
        raise open_output(place, format)
    is_real = spec.dtype.is_fixed or spec.dtype.bits == 16
    itemsize = REAL_BYTES if is_real else spec.dtype.numpy.itemsize
    return replace(spec, shape=format.packed_shape(shape, itemsize), layout="")


def _unpacked(hooks: PluginHooks, place: int, array: Any, spec: TensorSpec) -> Any:
    """Return a result in the layout of the op; other objects are returned as is."""
    format = hooks.output_at(place)
    if not format.is_packed or not hasattr(array, "dtype"):
        return array
    with user_code(hooks.name, "compute", hooks.place, f"output {place}"):
        return format.unpack(array, tuple(int(dim or 0) for dim in spec.shape))
