"""``compute`` methods of plugins as kernels of the runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.runtime.udo.python import Mark
from xdlc.udo.plugin.base import Plugin, overrides
from xdlc.udo.plugin.collection import plugin_hooks
from xdlc.udo.plugin.hooks import PluginHooks, open_output
from xdlc.udo.plugin.user_code import user_code

Array = Any  # numpy.ndarray
REAL_BYTES = 4  # quantized activations and halves reach kernels as float32


def functions_of_plugin(plugin: type[Plugin]) -> list[tuple[Mark, Callable[..., Any]]]:
    """Return what a runtime can call of a plugin: its kernel in Python, and its outputs.

    Raises:
        UsageError: If the plugin is not complete.
    """
    op, hooks = plugin_hooks(plugin)
    package, type = op.definition.package, op.definition.name
    found: list[tuple[Mark, Callable[..., Any]]] = []
    if callable(getattr(plugin, "compute", None)):
        found.append((Mark("kernel", package, type), _computed_by(hooks)))
    if overrides(hooks.plugin, "infer_shape_and_type"):

        def outputs(op: OpView) -> Any:
            with user_code(hooks.name, "infer_shape_and_type", hooks.place):
                return hooks.plugin.infer_shape_and_type(hooks.seen(op))

        outputs.__name__ = f"{plugin.__name__}.infer_shape_and_type"
        found.append((Mark("shape_function", package, type), outputs))
    return found


def _computed_by(hooks: PluginHooks) -> Callable[..., Any]:
    """Return a plugin's kernel in Python, with inputs brought into their formats and outputs back."""
    plugin: Any = hooks.plugin

    def compute(
        inputs: Sequence[Array | None], params: Mapping[str, Any], outputs: Sequence[TensorSpec]
    ) -> Any:
        given = [_packed(hooks, place, array) for place, array in enumerate(hooks.padded(inputs))]
        specs = [_packed_spec(hooks, place, spec) for place, spec in enumerate(outputs)]
        with user_code(hooks.name, "compute", hooks.place):
            result = plugin.compute(given, hooks.read_params(params), specs)
        several = isinstance(result, (list, tuple))
        arrays = list(result) if several else [result]
        if len(arrays) == len(outputs):
            arrays = [_unpacked(hooks, place, array, outputs[place]) for place, array in enumerate(arrays)]
        return arrays if several else arrays[0]

    compute.__name__ = f"{hooks.name}.compute"
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
    """Return a result in the layout of the op; what is no array is refused by the caller."""
    format = hooks.output_at(place)
    if not format.is_packed or not hasattr(array, "dtype"):
        return array
    with user_code(hooks.name, "compute", hooks.place, f"output {place}"):
        return format.unpack(array, tuple(int(dim or 0) for dim in spec.shape))
