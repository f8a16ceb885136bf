"""Session of onnxruntime for a lowered graph."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy

from xdlc.errors import BackendError
from xdlc.ir import MappedData
from xdlc.ir.names import place_of

if TYPE_CHECKING:
    from xdlc.runtime.lower import Lowered
    from xdlc.runtime.profile import Profiler

Array = Any  # numpy.ndarray


class Engine:
    """An onnxruntime session of a lowered graph.

    Args:
        spins: Whether idle threads wait busily, which is faster unless many sessions take turns.
        profiler: Collects the times of nodes.

    Raises:
        BackendError: If onnxruntime refuses the graph.
    """

    def __init__(
        self,
        lowered: Lowered,
        *,
        threads: int | None = None,
        spins: bool = True,
        profiler: Profiler | None = None,
    ) -> None:
        self.lowered = lowered
        self._profile = None if profiler is None else profiler.prefix()
        self._keep: list[Array] = []
        self._session = self._open(threads, spins)
        if profiler is not None:
            profiler.add(self)

    def _open(self, threads: int | None, spins: bool) -> Any:
        """Return a session, with the highest optimization level that raises no error.

        Version 1.31 refuses some valid graphs that it has rewritten itself: layer normalizations fused
        across casts of half floats, initializers shared by two rewritten nodes, integer kernels chosen
        but not there.
        """
        names, values = self._initializers()
        proto = self.lowered.proto.SerializeToString()
        refusal: BackendError | None = None
        for level in ("ALL", "EXTENDED", "BASIC", "DISABLE_ALL"):
            try:
                session = open_session(proto, names, values, level, threads, spins, profile=self._profile)
                for data in self.lowered.initializers.values():
                    data.release()  # most were copied into another layout; what was not is read again
                return session
            except engine_errors() as error:
                refusal = refusal or self._failure("onnxruntime rejects the graph", error)
        assert refusal is not None
        raise refusal

    def _initializers(self) -> tuple[list[str], list[Any]]:
        import onnxruntime

        names, values = [], []
        for name, data in self.lowered.initializers.items():
            array = contiguous(data.numpy())
            if not isinstance(data, MappedData):
                data.release()  # the pages of what it was made from
            self._keep.append(array)
            names.append(name)
            values.append(onnxruntime.OrtValue.ortvalue_from_numpy(array))
        self._keep.append(values)
        return names, values

    def run(self, values: Mapping[str, Array], options: Any = None) -> dict[str, Array]:
        """Return the outputs by tensor name.

        Args:
            values: An array for each input by tensor name, as ``Lowered`` has them; others are ignored.

        Raises:
            BackendError: If onnxruntime fails.
        """
        given = {onnx_name: values[name] for name, onnx_name in self.lowered.inputs.items()}
        names = self.lowered.outputs
        try:
            results = self._session.run(list(names.values()), given, options)
        except engine_errors() as error:
            raise self._failure("onnxruntime failed", error) from error
        return dict(zip(names, results, strict=True))

    def end_profile(self) -> str:
        """End an engine's profile and return the path of its JSON file."""
        return str(self._session.end_profiling())

    def _failure(self, problem: str, error: Exception) -> BackendError:
        text = " ".join(str(error).split())
        names = re.findall(r"Name:'([^']+)'|[Nn]ode ?\(([^)]+)\)|[Nn]ode '([^']+)'", text)
        ops = [op for found in names for name in found if (op := self.lowered.op_of(name)) is not None]
        place = place_of(ops[0]) if ops else f"graph {self.lowered.graph.name!r}"
        return BackendError(f"{problem}: {text[:600]}", where=place)


def open_session(
    proto: bytes,
    names: list[str],
    values: list[Any],
    level: str,
    threads: int | None,
    spins: bool = True,
    arena: bool = True,
    profile: str | None = None,
) -> Any:
    """Return an ``InferenceSession`` without fast approximations.

    Args:
        level: What ``ORT_ENABLE_`` is put before, or ``DISABLE_ALL``: optimizations of the graph.
        arena: Whether the session keeps memory that it has used for later.
        profile: What the name of a file with the times of nodes begins with; default: no file.

    Raises:
        Exception: One of :func:`engine_errors`, if onnxruntime refuses the graph.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what it reports comes as an exception anyway
    options.enable_cpu_mem_arena = arena
    prefix = "ORT_" if level.startswith("DISABLE") else "ORT_ENABLE_"
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, prefix + level)
    if profile is not None:
        options.enable_profiling, options.profile_file_prefix = True, profile
    if threads is not None:
        options.intra_op_num_threads = threads
    if not spins:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    # Without this, kernels for unsigned times signed bytes may saturate on CPUs without VNNI.
    options.add_session_config_entry("session.x64quantprecision", "1")
    # A product of floats and dequantized weights would round the floats to 8 bits (level 4); 1 is float32.
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    if names:
        options.add_external_initializers(names, values)
    # The first rounds float weights between quantized values to 8 bits, which the graph does not do;
    # the second makes of two roundings in a row one to steps of its own.
    return onnxruntime.InferenceSession(
        proto,
        options,
        providers=["CPUExecutionProvider"],
        disabled_optimizers=["WeightBiasQuantization", "DoubleQDQPairsRemover"],
    )


def engine_errors() -> tuple[type[Exception], ...]:
    """Return the classes of onnxruntime's errors, which have no common base."""
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


def give_back() -> None:
    """Return freed memory to the system, by glibc's ``malloc_trim`` if present.

    A closed session has used its memory in pieces that the C library keeps for later ones, which the next
    session then takes on top.
    """
    import ctypes
    import sys

    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(ctypes.c_size_t(0))


def contiguous(array: Array) -> Array:
    """Return the array in row-major order and aligned, which onnxruntime needs."""
    return numpy.require(array, requirements=["C", "A"])
