"""The float network with inputs that are added to tensors of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from xdlc.ir import Graph, Model, Role, Tensor, make_op, u32
from xdlc.ir.data import Array
from xdlc.ir.graph import is_custom
from xdlc.opdefs.elementwise_enums import ADD
from xdlc.quant.op_specs import is_real
from xdlc.quant.report.comparison import Subject
from xdlc.quant.samples import Sample


class Shifted(Protocol):
    """The float network, some tensors shifted."""

    def run(self, sample: Sample, shifts: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs that hold reals, some tensors shifted by arrays of their shapes."""


def shifted(subject: Subject, tensors: Sequence[Tensor]) -> Shifted:
    """Return the network whose tensors ``tensors`` can be shifted; the graph runs no others."""
    parted = any(is_custom(op) for op in subject.graph.ops)
    return _Parted(subject, tensors) if parted else _Whole(subject, tensors)


class _Whole:
    """A network that is one session: the inputs are added to it once it is lowered."""

    def __init__(self, subject: Subject, tensors: Sequence[Tensor]) -> None:
        from xdlc.runtime.cpu import feed
        from xdlc.runtime.engine import Engine
        from xdlc.runtime.lower import lower

        graph = subject.reference.main
        lowered = lower(graph, quantized=False)
        self._keys = {tensor.name: lowered.add_shift(tensor.name) for tensor in tensors}
        self._layouts = {tensor.name: lowered.layout(tensor.name) for tensor in tensors}
        self._outputs = [output.name for output in graph.outputs if is_real(output)]
        self._inputs = {tensor.name: tensor for tensor in graph.inputs}
        self._engine, self._feed = Engine(lowered), feed

    def run(self, sample: Sample, shifts: Mapping[str, Array]) -> dict[str, Array]:
        import numpy as np

        values: dict[str, Array] = {
            name: self._feed(tensor, sample[name]) for name, tensor in self._inputs.items()
        }
        for name, key in self._keys.items():
            layout = self._layouts[name]
            shift = shifts.get(name)
            values[key] = (
                np.zeros((1,) * len(layout), np.float32)
                if shift is None
                else np.ascontiguousarray(shift.transpose(layout), np.float32)
            )
        results = self._engine.run(values)
        return {name: results[name] for name in self._outputs}


class _Parted:
    """A network that users' ops part: the graph itself gets the inputs, and ops that add them."""

    def __init__(self, subject: Subject, tensors: Sequence[Tensor]) -> None:
        model = subject.reference.clone()
        self._outputs = [output.name for output in model.main.outputs if is_real(output)]
        self._shapes = {tensor.name: tensor.shape for tensor in tensors}
        self._keys = {name: _add_shift(model.main, model.main.tensors[name]) for name in self._shapes}
        pairs = zip(subject.reference.main.outputs, model.main.outputs, strict=True)
        self._given = {output.name: moved.name for output, moved in pairs}
        self._session = subject.job.session(Model({model.main.name: model.main}), quantized=False)

    def run(self, sample: Sample, shifts: Mapping[str, Array]) -> dict[str, Array]:
        import numpy as np

        fed = dict(sample)
        for name, key in self._keys.items():
            shift = shifts.get(name)
            fed[key] = np.zeros(self._shapes[name], np.float32) if shift is None else shift.astype(np.float32)
        results = self._session.run(fed)
        return {name: results[self._given[name]] for name in self._outputs}


def _add_shift(graph: Graph, tensor: Tensor) -> str:
    """Put an op behind a tensor that adds an input to it for all that read it; return the input's name."""
    name = graph.unique_name(f"{tensor.name}~shift")
    shift = graph.add_input(Tensor(name, tensor.shape, tensor.dtype))
    moved = Tensor(graph.unique_name(f"{tensor.name}~shifted"), tensor.shape, tensor.dtype)
    readers = graph.consumers(tensor)
    params = {"operation": u32(ADD)}
    op = make_op(graph, "ElementWiseBinary", [tensor, shift], [moved], params, name=f"{name}_op")
    if tensor.producer is not None:
        graph.insert_after(tensor.producer, op)
    else:
        graph.insert_before(graph.ops[0], op)
    for reader in readers:
        graph.set_inputs(reader, [moved if read is tensor else read for read in reader.inputs])
    if graph.is_output(tensor):
        tensor.role, moved.role = Role.NATIVE, Role.OUTPUT
        graph.outputs = [moved if output is tensor else output for output in graph.outputs]
    return name
