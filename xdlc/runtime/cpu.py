"""Execution by onnxruntime's CPU kernels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from xdlc.errors import BackendError, UsageError, XdlcError, nearest_names, raise_all
from xdlc.ir import Graph, Tensor
from xdlc.runtime.builder import describe
from xdlc.runtime.lower import Lowered, as_float, lower
from xdlc.runtime.stored import to_real, to_stored

Array = Any  # numpy.ndarray


class CpuSession:
    """A graph, ready to run.

    Args:
        graph: The graph, or what :func:`xdlc.runtime.lower.lower` made of one.
        quantized: Round fixed-point tensors to their encodings; otherwise they run as float.
        outputs: Names of tensors to give out beside the graph's outputs.
        threads: Threads of one op; default: one per core.

    Raises:
        UnsupportedOp: If an op has no host implementation; several make a ProblemList.
        ModelError: If the graph or an encoding is not valid.
        BackendError: If onnxruntime refuses the graph.
    """

    def __init__(
        self,
        graph: Graph | Lowered,
        *,
        quantized: bool = True,
        outputs: Iterable[str] | None = None,
        threads: int | None = None,
    ) -> None:
        lowered = graph if isinstance(graph, Lowered) else lower(graph, quantized=quantized, outputs=outputs)
        self.lowered = lowered
        self.graph = lowered.graph
        self._inputs = {tensor.name: tensor for tensor in self.graph.inputs}
        self._keep: list[Array] = []
        self._session = self._open(threads)

    def _open(self, threads: int | None) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # what it reports comes as an exception anyway
        if threads is not None:
            options.intra_op_num_threads = threads
        # Without this, kernels for unsigned times signed bytes may saturate on CPUs without VNNI.
        options.add_session_config_entry("session.x64quantprecision", "1")
        # Otherwise signed activations are rewritten as unsigned ones; onnxruntime 1.31 then contradicts
        # itself about the types of nodes it has inserted, and refuses the graph.
        options.add_session_config_entry("session.qdqisint8allowed", "1")
        names, values = [], []
        for name, data in self.lowered.initializers.items():
            array = _contiguous(data.numpy())
            self._keep.append(array)
            names.append(name)
            values.append(onnxruntime.OrtValue.ortvalue_from_numpy(array))
        if names:
            options.add_external_initializers(names, values)
        self._keep.append(values)
        proto = self.lowered.proto.SerializeToString()
        try:
            return onnxruntime.InferenceSession(proto, options, providers=["CPUExecutionProvider"])
        except _engine_errors() as error:
            raise self._failure("onnxruntime does not take the graph", error) from error

    def run(self, feeds: Mapping[str, Array], *, native: bool = False) -> dict[str, Array]:
        """Return the outputs by tensor name.

        Args:
            feeds: One array per input.  A fixed-point input takes real numbers (any float type) or
                stored integers (its own integer type).
            native: Give fixed-point outputs as stored integers instead of float32.

        Raises:
            UsageError: If an input is missing, unknown, or has another shape or type.
            BackendError: If onnxruntime fails.
        """
        given = self._feeds(feeds)
        names = self.lowered.outputs
        try:
            results = self._session.run(list(names.values()), given)
        except _engine_errors() as error:
            raise self._failure("onnxruntime failed", error) from error
        return {name: self._result(name, array, native) for name, array in zip(names, results, strict=True)}

    def _result(self, name: str, array: Array, native: bool) -> Array:
        tensor = self.graph.tensors.get(name)
        if tensor is None:
            return array
        if native and tensor.dtype.is_fixed:
            return to_stored(array, tensor)
        return array.astype(tensor.dtype.numpy) if tensor.dtype.name == "bfloat16" else array

    def _feeds(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        problems: list[XdlcError] = []
        given: dict[str, Array] = {}
        where = f"graph {self.graph.name!r}"
        for name in feeds:
            if name not in self._inputs:
                hint = nearest_names(name, self._inputs) or f"inputs: {', '.join(self._inputs)}"
                problems.append(UsageError(f"has no input {name!r}", where=where, fix=hint))
        for name, tensor in self._inputs.items():
            if name not in feeds:
                fix = f"give an array of shape {list(tensor.shape)}, {tensor.dtype}"
                problems.append(UsageError(f"input {name!r} is missing", where=where, fix=fix))
                continue
            try:
                given[self.lowered.inputs[name]] = feed(tensor, feeds[name])
            except XdlcError as error:
                error.where = f"{where}: input {name!r}"
                problems.append(error)
        raise_all(problems)
        return given

    def _failure(self, problem: str, error: Exception) -> BackendError:
        text = " ".join(str(error).split())
        names = re.findall(r"Name:'([^']+)'|[Nn]ode ?\(([^)]+)\)|[Nn]ode '([^']+)'", text)
        ops = [op for found in names for name in found if (op := self.lowered.op_of(name)) is not None]
        place = describe(self.graph, ops[0] if ops else None)
        return BackendError(f"{problem}: {text[:600]}", where=place)


def _engine_errors() -> tuple[type[Exception], ...]:
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    names = (
        "Fail",
        "InvalidArgument",
        "InvalidGraph",
        "InvalidProtobuf",
        "NotImplemented",
        "RuntimeException",
    )
    found = tuple(getattr(state, name) for name in names if hasattr(state, name))
    return (*found, RuntimeError, ValueError)


def _contiguous(array: Array) -> Array:
    import numpy

    return numpy.require(array, requirements=["C", "A"])


def feed(tensor: Tensor, value: Array) -> Array:
    """Return what the engine takes for an input.

    Args:
        tensor: The input.
        value: Real numbers, or stored integers for a fixed-point input.

    Raises:
        UsageError: If shape or type do not fit, or integers do not survive the conversion.
    """
    import numpy

    array = numpy.asarray(value)
    _check_shape(tensor, array)
    if tensor.dtype.is_fixed and array.dtype == tensor.dtype.numpy and tensor.encoding is not None:
        return _contiguous(to_real(array, tensor.encoding, where=f"tensor {tensor.name!r}"))
    wanted = numpy.dtype(numpy.float32) if as_float(tensor.dtype) else tensor.dtype.numpy
    if array.dtype == wanted:
        return _contiguous(array)
    kinds = {"f": "f", "i": "iu", "u": "iu", "b": "b"}[wanted.kind]
    narrow_float = array.dtype.name == "bfloat16" and wanted.kind == "f"
    if array.dtype.kind not in kinds and not narrow_float:
        stored = f" or stored {tensor.dtype.numpy}" if tensor.dtype.is_fixed else ""
        raise UsageError(
            f"needs {wanted}{stored} for {tensor.dtype}, got {array.dtype}", fix="convert the array"
        )
    converted = array.astype(wanted)
    if wanted.kind in "iu" and not numpy.array_equal(converted, array):
        raise UsageError(f"holds {array.dtype} values that {wanted} cannot", fix="convert the array")
    return _contiguous(converted)


def _check_shape(tensor: Tensor, array: Array) -> None:
    fits = array.ndim == tensor.rank and all(
        extent == wanted or axis in tensor.dynamic_axes
        for axis, (extent, wanted) in enumerate(zip(array.shape, tensor.shape, strict=True))
    )
    if not fits:
        raise UsageError(
            f"needs shape {list(tensor.shape)}, got {list(array.shape)}", fix="reshape the array"
        )
