"""Runs a model section by section, as its AIP record divides it.

A section on HTA that xdlc has compiled runs as its plan (:mod:`xdlc.runtime.hta`), all others on the CPU.
Values go from section to section in the form in which graphs give them; a plan takes and gives stored
integers, which are requantized where its encoding of a value is not the model's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from xdlc.container.aip_record import Engine
from xdlc.errors import UsageError, raise_all
from xdlc.ir import Graph, Model, ScaleOffset, Tensor, TensorData
from xdlc.ir.dtype import UFIXED8, UFIXED16
from xdlc.ir.quantization import quantized_limits, to_float, to_quantized
from xdlc.runtime.cpu import CpuSession, feeds_of, result
from xdlc.runtime.fusion_groups import Part, parts_of
from xdlc.runtime.hta.form import decode
from xdlc.runtime.hta.plan import Buffer
from xdlc.runtime.hta.session import PlanSession
from xdlc.runtime.htp_fusion import came_quantized
from xdlc.runtime.lower import check_outputs
from xdlc.runtime.plan import constant
from xdlc.runtime.section_record import Placed, check_prints, find_record, placed, refuse

if TYPE_CHECKING:
    from xdlc.runtime.udo.kernels import Kernels

Array = Any  # numpy.ndarray
Values = dict[str, Array]

_FIXED = {"uint8": UFIXED8, "uint16": UFIXED16}
_LARGEST_SCALE = 1e38
_LARGEST_ZERO = 1 << 24


class SectionSession:
    """A model with an AIP record, ready to run.

    Attributes:
        graph: The main graph.
        notices: What the caller should know: lines of text.

    Args:
        model: The model.
        records: Where the AIP record is, if not in the model: those of the container of format 3 that the
            model was translated from.
        outputs: Names of tensors to give out beside the graph's outputs; only those can be had that go from
            section to section.
        threads: Threads of one op on the CPU; default: one per core.
        loop_timeout: Seconds that each loop may take.
        kernels: Kernels of users' ops; the caller closes them, unless the session comes to own them.

    Raises:
        ContainerError: If there is no AIP record, or it is damaged, or does not fit the model.
        UsageError: If an extra output is no tensor of the graph, or inside a section.
        XdlcError: What :class:`xdlc.runtime.cpu.CpuSession` raises.
    """

    def __init__(
        self,
        model: Model,
        *,
        records: Mapping[str, TensorData] | None = None,
        outputs: Iterable[str] = (),
        threads: int | None = None,
        loop_timeout: float | None = None,
        kernels: Kernels | None = None,
    ) -> None:
        self.graph = model.main
        held = model.records if records is None else records
        name, record = find_record(held)
        sections = placed(model, name, record)
        stated = came_quantized(model)
        parts = parts_of(self.graph, [one.ops for one in sections], stated=stated)
        pairs = list(zip(sections, parts, strict=True))
        check_prints(held, name, [(one, part) for one, part in pairs if one.is_compiled], stated=stated)
        self.notices = _notices(sections)
        self._sections = sections
        self._outputs = [*self.graph.outputs, *_extra(self.graph, parts, outputs)]
        self._steps: list[_Compiled | _OnCpu] = []
        for one, part in pairs:
            if one.is_compiled:
                self._steps.append(_Compiled(one, part))
            elif part.graph.outputs:
                self._steps.append(_OnCpu(model, part.graph, threads, loop_timeout, kernels))
        self._static = {tensor.name: constant(tensor) for tensor in self.graph.outputs if tensor.is_static}
        self._owned = ExitStack()

    def __enter__(self) -> SectionSession:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._owned.__exit__(*raised)

    def close(self) -> None:
        """Close the kernels that the session owns.

        Raises:
            BackendError: If a library of theirs fails at it.
        """
        self._owned.close()

    def own(self, *kernels: Kernels) -> None:
        """Take over kernels, which are closed with the session."""
        for each in kernels:
            self._owned.push(each)

    def run(self, feeds: Mapping[str, Array], *, native: bool = False) -> dict[str, Array]:
        """Return the outputs by tensor name.

        Args:
            feeds: One array per input, as :meth:`xdlc.runtime.cpu.CpuSession.run` takes them.
            native: Give fixed-point outputs as stored integers instead of float32.

        Raises:
            UsageError: If an input is missing, unknown, or has another shape or type.
            BackendError: If onnxruntime fails, or a loop takes longer than its time-out.
        """
        values: Values = {**self._static, **feeds_of(self.graph, feeds)}
        for step in self._steps:
            step.run(values)
        return {tensor.name: result(tensor, values[tensor.name], native=native) for tensor in self._outputs}

    def __str__(self) -> str:
        compiled = [one for one in self._sections if one.is_compiled]
        layers = ", ".join(f"{one.section.first}-{one.section.last}" for one in compiled)
        count = len(self._sections)
        return f"{count} section{'s' * (count != 1)}, " + (
            f"layers {layers} on HTA" if layers else "none on HTA"
        )


def _extra(graph: Graph, parts: Sequence[Part], outputs: Iterable[str]) -> list[Tensor]:
    names = check_outputs(graph, outputs)
    had = {tensor.name for part in parts for tensor in part.graph.outputs}
    problems = [
        UsageError(
            f"{name!r} is inside a section, whose values cannot be had",
            where=f"graph {graph.name!r}",
            fix="run the model without --use_aip",
        )
        for name in names
        if name not in had
    ]
    raise_all(problems)
    own = {tensor.name for tensor in graph.outputs}
    return [graph.tensors[name] for name in names if name not in own]


def _notices(sections: Sequence[Placed]) -> tuple[str, ...]:
    foreign = [
        f"{one.section.first}-{one.section.last}"
        for one in sections
        if one.section.engine is Engine.HTA and not one.is_compiled
    ]
    if not foreign:
        return ()
    return (
        f"the HTA code of layers {', '.join(foreign)} is the vendor's and runs on the device only: "
        f"here these layers run on the CPU",
    )


class _OnCpu:
    """A section that onnxruntime runs."""

    def __init__(
        self,
        model: Model,
        part: Graph,
        threads: int | None,
        loop_timeout: float | None,
        kernels: Kernels | None,
    ) -> None:
        others = {name: graph for name, graph in model.graphs.items() if graph is not model.main}
        self._names = [tensor.name for tensor in part.inputs]
        self._session = CpuSession(
            Model({part.name: part, **others}, model.metadata, model.records),
            threads=threads,
            loop_timeout=loop_timeout,
            kernels=kernels,
        )

    def run(self, values: Values) -> None:
        """Add the section's results to the values by tensor name."""
        values.update(self._session.run({name: values[name] for name in self._names}))


class _Compiled:
    """A section that a plan runs.

    Raises:
        ContainerError: If the plan is damaged, or does not take and give what the section does.
    """

    def __init__(self, placed: Placed, part: Part) -> None:
        plan = decode(placed.section.binary, where=placed.where)
        self._session = PlanSession(plan, where=placed.where)
        inputs, outputs = ([plan.buffers[index] for index in side] for side in (plan.inputs, plan.outputs))
        entering = {tensor.name: tensor for tensor in part.graph.inputs}
        leaving = {tensor.name: tensor for tensor in part.graph.outputs}
        self._inputs = _ports(inputs, entering, placed.where)
        self._outputs = _ports(outputs, leaving, placed.where)
        for name in leaving:
            if name not in self._outputs:
                refuse(f"does not give {name!r}, which other sections read", placed.where)

    def run(self, values: Values) -> None:
        """Add the section's results to the values by tensor name."""
        given = {
            name: _rounded(values[name], port) if port.dtype.is_fixed else values[name]
            for name, (port, _) in self._inputs.items()
        }
        for name, stored in self._session.run(given).items():
            port, tensor = self._outputs[name]
            values[name] = _real(stored, port, tensor) if port.dtype.is_fixed else stored


Ports = dict[str, tuple[Tensor, Tensor]]
"""By name: a value as a plan holds it, and as the model does."""


def _ports(buffers: Sequence[Buffer], tensors: Mapping[str, Tensor], where: str) -> Ports:
    ports: Ports = {}
    for buffer in buffers:
        tensor = tensors.get(buffer.name)
        if tensor is None:
            refuse(f"has the port {buffer.name!r}, the layers of the section do not", where)
        if buffer.shape != tensor.shape:
            refuse(f"holds {buffer.name!r} as {list(buffer.shape)}, the model as {list(tensor.shape)}", where)
        ports[buffer.name] = _port(buffer, tensor, where), tensor
    return ports


def _port(buffer: Buffer, tensor: Tensor, where: str) -> Tensor:
    if not tensor.dtype.is_fixed:
        if buffer.dtype != tensor.dtype.numpy.name or buffer.scale:
            refuse(f"holds {buffer.name!r} as {buffer.dtype}, the model as {tensor.dtype}", where)
        return Tensor(buffer.name, buffer.shape, tensor.dtype)
    if buffer.dtype not in _FIXED:
        refuse(f"holds {buffer.name!r} as {buffer.dtype}, the model as {tensor.dtype}", where)
    if not 0 < buffer.scale < _LARGEST_SCALE or abs(buffer.zero) > _LARGEST_ZERO:
        refuse(
            f"holds {buffer.name!r} with scale {buffer.scale:g} and offset {buffer.zero}, no encoding", where
        )
    return Tensor(buffer.name, buffer.shape, _FIXED[buffer.dtype], ScaleOffset(buffer.scale, buffer.zero))


def _rounded(real: Array, port: Tensor) -> Array:
    """Return the stored integers of real numbers, divided in float32 as onnxruntime does."""
    import numpy

    encoding = port.encoding
    assert isinstance(encoding, ScaleOffset)
    low, high = quantized_limits(port)
    steps = numpy.rint(numpy.asarray(real, numpy.float32) / numpy.float32(encoding.scale))
    return numpy.clip(steps - numpy.float32(encoding.offset), low, high).astype(port.dtype.numpy)


def _real(stored: Array, port: Tensor, tensor: Tensor) -> Array:
    assert port.encoding is not None
    real = to_float(stored, port.encoding, where=f"tensor {port.name!r}")
    if port.encoding == tensor.encoding or tensor.encoding is None:
        return real
    return to_float(to_quantized(real, tensor), tensor.encoding, where=f"tensor {port.name!r}")
