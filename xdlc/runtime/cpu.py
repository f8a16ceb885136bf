"""Sessions on onnxruntime's CPU kernels."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy

from xdlc.errors import UsageError, XdlcError, nearest_names, raise_all
from xdlc.ir import Encoding, Graph, Model, ScaleOffset, Tensor
from xdlc.ir.graph import is_udo
from xdlc.ir.quantization import to_float, to_quantized
from xdlc.opdefs.control_flow import has_control_flow
from xdlc.runtime.array_files import check_shape
from xdlc.runtime.engine import Engine, contiguous
from xdlc.runtime.lower import Lowered, as_float, lower
from xdlc.runtime.plan import Accelerator, came_quantized, has_halves, make_plan, whole_plan
from xdlc.runtime.states import with_first_values
from xdlc.runtime.steps import Observer, Plan
from xdlc.runtime.timeout import Watch, checked

if TYPE_CHECKING:
    from xdlc.runtime.profile import Profiler
    from xdlc.runtime.udo.kernels import Kernels


Array = Any  # numpy.ndarray
COMPILED_AFTER = 0.5
"""Seconds of runs after which a session compiles products of bytes, if numba is installed.

Loading compiled code takes as long; compiling it, once on a machine, takes some seconds.
"""


class CpuSession:
    """A graph, ready to run.

    Args:
        graph: A model, of which the main graph runs; a graph that runs no others; or what
            :func:`xdlc.runtime.lower.lower` made of one, whose loops then have no time-out.
        quantized: Round fixed-point tensors to their encodings; otherwise they run as float.
        outputs: Names of tensors to output in addition to the graph's outputs.
        threads: Threads of one op; default: one per core.
        spins: Whether idle threads wait busily, which is faster unless sessions take turns.
        loop_timeout: Seconds that each loop may take, at most 15; default: 2.
        plain: Compute float values and round what has an encoding, where HTP rounds less or more; quicker.
        refine: Called with each part of the main graph once it is lowered; may add nodes and outputs.
        observer: What looks at values of the graph and of those that it runs.
        kernels: Kernels of UDOs; the caller closes them.
        profiler: Collects the times of ops.
        accelerator: Runs partitions of the main graph and of those that it runs; default: none.

    Raises:
        UnsupportedOp: If an op has no host implementation, or a UDO no kernel; several make a
            ProblemList.
        ModelError: If the graph or an encoding is not valid.
        ConstraintError: If an op that runs other graphs breaks a rule of control flow.
        BackendError: If onnxruntime refuses the graph.
    """

    def __init__(
        self,
        graph: Model | Graph | Lowered,
        *,
        quantized: bool = True,
        outputs: Iterable[str] | None = None,
        threads: int | None = None,
        spins: bool = True,
        loop_timeout: float | None = None,
        plain: bool = False,
        refine: Callable[[Lowered], None] | None = None,
        observer: Observer | None = None,
        kernels: Kernels | None = None,
        profiler: Profiler | None = None,
        accelerator: Accelerator | None = None,
    ) -> None:
        self._timeout = checked(loop_timeout)
        self._seconds, self._lock = 0.0, threading.Lock()
        self._compile: Callable[[], Plan | None] | None = None
        self._states = graph.metadata.get("states", {}) if isinstance(graph, Model) else {}
        if isinstance(graph, Lowered):
            self.graph = graph.graph
            self._plan = whole_plan(graph, threads=threads, spins=spins)
        else:
            self.graph = graph.main if isinstance(graph, Model) else graph
            graphs = graph.graphs if isinstance(graph, Model) else {}
            stated = plain or (isinstance(graph, Model) and came_quantized(graph))
            planned = partial(
                make_plan,
                self.graph,
                graphs,
                quantized=quantized,
                outputs=outputs,
                threads=threads,
                spins=spins,
                refine=refine,
                observer=observer,
                stated=stated,
                halves=isinstance(graph, Model) and has_halves(graph),
                kernels=kernels or _none(graph),
                profiler=profiler,
            )
            self._plan = planned(accelerator=accelerator)
            if quantized and not (stated or outputs or refine or observer or profiler or accelerator):
                self._compile = partial(_compiled, self.graph, threads, planned)

    def _upgrade(self) -> None:
        """Replace the plan with one of compiled ops once runs have taken long."""
        with self._lock:
            compile = self._compile if self._seconds >= COMPILED_AFTER else None
            if compile is not None:
                self._compile = None
        if compile is not None:
            self._plan = compile() or self._plan

    def run(
        self, feeds: Mapping[str, Array], *, native: bool = False, until: float | None = None
    ) -> dict[str, Array]:
        """Return the outputs by tensor name.

        Args:
            feeds: One array per input.  A fixed-point input accepts float values (any float type) or
                quantized values (its own integer type).
            native: Give fixed-point outputs as quantized values instead of float32.
            until: Time of the monotonic clock at which the run is ended, between two ops.

        Raises:
            UsageError: If an input is missing, unknown, or has another shape or type.
            BackendError: If onnxruntime fails, a loop takes longer than its time-out, or the run than it may.
        """
        arrays = feeds_of(self.graph, with_first_values(self.graph, self._states, feeds))
        watch = Watch(self._timeout)
        if until is None:
            self._upgrade()
        plan, start = self._plan, time.monotonic()
        with watch.until(until):
            results = plan.run(list(arrays.values()), watch)
        self._seconds += time.monotonic() - start
        named = zip(plan.outputs, results, strict=True)
        return {name: result(self.graph.tensors.get(name), array, native=native) for name, array in named}


def _none(graph: Model | Graph) -> Kernels | None:
    """Return the lookup of hints on how a model's ops can have kernels."""
    held = graph.graphs.values() if isinstance(graph, Model) else (graph,)
    if not any(is_udo(op) for each in held for op in each.ops):
        return None
    from xdlc.runtime.udo.kernels import Kernels

    return Kernels(model=graph if isinstance(graph, Model) else None)


def result(tensor: Tensor | None, array: Array, *, native: bool) -> Array:
    """Return an output in the data type that callers receive.

    Args:
        tensor: The tensor of a value of the engine; None for a value that is not a tensor of the graph.
        native: Give fixed-point numbers as quantized values.
    """
    if tensor is None:
        return array
    if native and tensor.dtype.is_fixed:
        return to_quantized(array, tensor)
    return array.astype(tensor.dtype.numpy) if tensor.dtype.name == "bfloat16" else array


def feeds_of(graph: Graph, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Return the engine's inputs of a graph, by name.

    Args:
        feeds: The argument of ``feed`` for each input.

    Raises:
        UsageError: If an input is missing, unknown, or has another shape or type; a ProblemList of several.
    """
    problems: list[XdlcError] = []
    arrays: dict[str, Array] = {}
    inputs = {tensor.name: tensor for tensor in graph.inputs}
    where = f"graph {graph.name!r}"
    for name in feeds:
        if name not in inputs:
            hint = nearest_names(name, inputs) or f"use one of {', '.join(inputs)}"
            problems.append(UsageError(f"has no input {name!r}", where=where, fix=hint, code="XD211"))
    for name, tensor in inputs.items():
        if name not in feeds:
            fix = f"give an array of shape {list(tensor.shape)}, {tensor.dtype}"
            problems.append(UsageError(f"input {name!r} is missing", where=where, fix=fix))
            continue
        try:
            arrays[name] = feed(tensor, feeds[name])
        except XdlcError as error:
            error.where = f"{where}: input {name!r}"
            problems.append(error)
    raise_all(problems)
    return arrays


def array_of(value: Any) -> Array:
    """Return nested lists as an array; arrays are returned as is.

    Raises:
        UsageError: If lists differ in length.
    """
    try:
        return numpy.asarray(value)
    except ValueError as error:
        raise UsageError(
            f"is not an array: {error}", fix="give an array, or lists of equal length"
        ) from error


def feed(tensor: Tensor, value: Array) -> Array:
    """Return the engine's input.

    Args:
        value: Real numbers, or quantized values for a fixed-point input.

    Raises:
        UsageError: If shape or type do not fit, or integers do not survive the conversion.
    """
    array = array_of(value)
    check_shape(tensor, array.shape)
    if tensor.dtype.is_fixed and array.dtype == tensor.dtype.numpy and tensor.encoding is not None:
        return contiguous(to_float(array, tensor.encoding, where=f"tensor {tensor.name!r}"))
    dtype = numpy.dtype(numpy.float32) if as_float(tensor.dtype) else tensor.dtype.numpy
    if array.dtype == dtype:
        return contiguous(array)
    kinds = {"f": "f", "i": "iu", "u": "iu", "b": "b"}[dtype.kind]
    narrow_float = array.dtype.name == "bfloat16" and dtype.kind == "f"
    if array.dtype.kind not in kinds and not narrow_float:
        raise type_problem(tensor, array.dtype)
    converted = array.astype(dtype)
    if dtype.kind in "iu" and not numpy.array_equal(converted, array):
        fix = "give values from {} to {}".format(*tensor.dtype.limits)
        raise UsageError(f"the array has {array.dtype} values that {dtype} cannot represent", fix=fix)
    return contiguous(converted)


def type_problem(tensor: Tensor, dtype: Any) -> UsageError:
    """Return the error for an array whose dtype an input does not support.

    Integers for a quantized input are its stored values if they have its stored type, and refused else: they
    could be real numbers.
    """
    stored = tensor.dtype.numpy
    if tensor.dtype.is_fixed:
        fix = f"give real numbers as array.astype('float32'), or stored values as {stored}"
        return UsageError(f"needs float32 or stored {stored} for {tensor.dtype}, but has {dtype}", fix=fix)
    real = "float32" if as_float(tensor.dtype) else stored
    return UsageError(f"needs {real} for {tensor.dtype}, but has {dtype}", fix=f"give array.astype('{real}')")


def _compiled(graph: Graph, threads: int | None, planned: Callable[..., Plan]) -> Plan | None:
    """Return the plan of a graph with compiled ops; None if it is not quicker."""
    from xdlc.runtime.compiled import accelerator

    division = None if has_control_flow(graph) else accelerator(graph, threads)
    return None if division is None else planned(accelerator=division)


class AdjustableSession:
    """A quantized main graph, ready to run under any encodings of its activations.

    Types stay those of the graph, and so do the values of weights.  Products of bytes sum integers, to which
    their biases are rounded.  Idle threads sleep.

    Args:
        model: A quantized model whose main graph runs no other graph.
        outputs: Names of the tensors to output.
        threads: Threads of one op; default: one per core.

    Raises:
        UsageError: If the graph runs others, or lacks one of the tensors.
        UnsupportedOp: If an op has no host implementation.
        BackendError: If onnxruntime refuses the graph.
    """

    def __init__(self, model: Model, outputs: Iterable[str], *, threads: int | None = None) -> None:
        graph = model.main
        if has_control_flow(graph):
            raise UsageError(
                "the graph runs other graphs, and you cannot feed the encodings of other graphs",
                where=f"graph {graph.name!r}",
                fix="use CpuSession",
            )
        self._outputs = tuple(outputs)
        self._lowered = lower(graph, outputs=self._outputs, adjustable=True)
        self._engine = Engine(self._lowered, threads=threads, spins=False)
        self._inputs = {tensor.name: tensor for tensor in graph.inputs}

    def encodings(self, by_name: Mapping[str, Encoding]) -> dict[str, Array]:
        """Return the feeds that set encodings of activations.

        Args:
            by_name: By tensor name; those of unsigned 16-bit tensors may use fewer ``bits``, from zero on.
                Tensors that are not in it keep the encoding that they have in the graph.  Behind a clamp, no
                encoding of 8 bits may reach farther than that of the graph.
        """
        fed = {}
        for tensor, (scale, zero, upper) in self._lowered.adjusted.items():
            encoding = by_name.get(tensor.name, tensor.encoding)
            if not isinstance(encoding, ScaleOffset):
                raise UsageError(
                    f"needs one scale and offset, not {encoding!r}",
                    where=f"tensor {tensor.name!r}",
                    fix="give a ScaleOffset",
                )
            fed[scale] = numpy.array(encoding.scale, numpy.float32)
            fed[zero] = numpy.array(-encoding.offset, tensor.dtype.numpy)
            largest = tensor.dtype.limits[1] if encoding.bits is None else (1 << encoding.bits) - 1
            fed[upper] = numpy.array((largest + encoding.offset) * encoding.scale, numpy.float32)
        return fed

    def run(self, feeds: Mapping[str, Array], encodings: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs as float values by tensor name.

        Args:
            feeds: One array per input, as for ``CpuSession.run``.
            encodings: What ``encodings`` returned.

        Raises:
            BackendError: If onnxruntime fails.
        """
        given = {name: feed(tensor, feeds[name]) for name, tensor in self._inputs.items()}
        results = self._engine.run({**given, **encodings})
        return {name: results[name] for name in self._outputs}
