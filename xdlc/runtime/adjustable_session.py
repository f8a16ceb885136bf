"""One session for many choices of activation encodings: scales and zero points are fed like data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from xdlc.errors import UsageError
from xdlc.ir import Encoding, Model, ScaleOffset
from xdlc.opdefs.control_flow import has_control_flow
from xdlc.runtime.cpu import feed
from xdlc.runtime.engine import Engine
from xdlc.runtime.lower import lower

Array = Any  # numpy.ndarray


class AdjustableSession:
    """A quantized main graph, ready to run under any encodings of its activations.

    Types stay those of the graph, and so do the values of weights and biases.  Convolutions run in float
    between roundings, for onnxruntime's integer kernels want constant scales.  Idle threads sleep.

    Args:
        model: A quantized model whose main graph runs no other graph.
        outputs: Names of the tensors to give out.
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
                "runs other graphs, whose encodings cannot be fed",
                where=f"graph {graph.name!r}",
                fix="use CpuSession",
            )
        self._outputs = tuple(outputs)
        self._lowered = lower(graph, outputs=self._outputs, adjustable=True)
        self._engine = Engine(self._lowered, threads=threads, spins=False)
        self._inputs = {tensor.name: tensor for tensor in graph.inputs}

    def encodings(self, given: Mapping[str, Encoding]) -> dict[str, Array]:
        """Return what is to be fed so that activations have some encodings.

        Args:
            given: By tensor name; those of unsigned 16-bit tensors may use fewer ``bits``, from zero on.
                Tensors that are not in it keep the encoding that they have in the graph.
        """
        import numpy

        fed = {}
        for tensor, (scale, zero, upper) in self._lowered.adjusted.items():
            encoding = given.get(tensor.name, tensor.encoding)
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
        """Return the outputs as real numbers by tensor name.

        Args:
            feeds: One array per input, as for ``CpuSession.run``.
            encodings: What ``encodings`` returned.

        Raises:
            BackendError: If onnxruntime fails.
        """
        given = {name: feed(tensor, feeds[name]) for name, tensor in self._inputs.items()}
        results = self._engine.run({**given, **encodings})
        return {name: results[name] for name in self._outputs}
