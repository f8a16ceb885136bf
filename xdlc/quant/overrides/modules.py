"""Tensors of a graph by the modules of the network that its source was exported from.

Programs of PyTorch name nodes ``layer1.0.conv1.conv2d``, exports to ONNX ``/layer1/layer1.0/conv1/Conv``, and
AIMET ``layer1.0.conv1``: all are of module ``layer1.0.conv1``, which encodings of AIMET for PyTorch have as
their key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from xdlc.ir import Graph, Op, Tensor
from xdlc.opdefs.traits import traits

_ROLES = ("weight", "bias")


class Port(str):
    """Name of an input or output of a module: ``conv1 output 0``.

    Attributes:
        module: Path of the module.
        side: ``input`` or ``output``.
        place: Position among them.
    """

    __slots__ = ("module", "place", "side")
    module: str
    side: str
    place: int

    def __new__(cls, module: str, side: str, place: int) -> Port:
        """Return the name."""
        made = super().__new__(cls, f"{module} {side} {place}")
        made.module, made.side, made.place = module, side, place
        return made


class Modules:
    """The ops of each module of a graph.

    Args:
        graph: The graph, with the source nodes of each op.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._ops: dict[str, dict[Op, None]] = {}
        for op in graph.ops:
            if not op.is_inserted:
                for node in op.origin.nodes:
                    for path in filter(None, _paths(node)):
                        self._ops.setdefault(path, {})[op] = None

    def find(self, name: str, kind: str | None) -> list[Tensor]:
        """Return the tensors that a name with the path of a module is for; none if it has none.

        Args:
            name: ``conv1.weight``, a ``Port``, or a module, whose first output is meant.
            kind: ``activation`` or ``param``; None where that is not known.
        """
        if isinstance(name, Port):
            return self._port(name)
        module, _, last = name.rpartition(".")
        found: list[Tensor] = []
        if kind != "activation" and last in _ROLES:
            found = list(dict.fromkeys(self._parameters(module, last)))
        if not found and kind != "param":
            found = self._port(Port(name, "output", 0))
        return found

    def knows(self, name: str) -> bool:
        """Return whether a name has the path of a module with ops."""
        module, _, last = name.rpartition(".")
        if isinstance(name, Port):
            return name.module in self._ops
        return name in self._ops or (last in _ROLES and module in self._ops)

    def _parameters(self, module: str, role: str) -> Iterator[Tensor]:
        for op in self._ops.get(module, ()):
            if module not in _paths(op.origin.nodes[0]):
                continue  # merged into a layer, whose weights are not its own
            found = traits(op)
            index = found.bias if role == "bias" else found.weight
            tensor = op.inputs[index] if index is not None and index < len(op.inputs) else None
            if tensor is not None and tensor.is_static:
                yield tensor

    def _port(self, port: Port) -> list[Tensor]:
        ops = self._ops.get(port.module, {})
        found = list(dict.fromkeys(self._read(ops) if port.side == "input" else self._written(ops)))
        tensor = found[port.place] if port.place < len(found) else None
        return [tensor] if tensor is not None and self._is_whole(port, tensor, ops) else []

    def _read(self, ops: Collection[Op]) -> Iterator[Tensor]:
        """Iterate over the computed tensors that ops read and others write."""
        for op in ops:
            for tensor in op.inputs:
                if tensor is not None and not tensor.is_static and not _is_of(tensor.producer, ops):
                    yield tensor

    def _written(self, ops: Collection[Op]) -> Iterator[Tensor]:
        """Iterate over the tensors that ops write and others read."""
        for op in ops:
            for tensor in op.outputs:
                readers = self._graph.consumers(tensor)
                if self._graph.is_output(tensor) or any(reader not in ops for reader in readers):
                    yield tensor

    def _is_whole(self, port: Port, tensor: Tensor, ops: Collection[Op]) -> bool:
        """Return whether no fused op has the nodes of other modules between the tensor and this one."""
        if port.side == "output":
            made = tensor.producer
            return made is not None and port.module in _paths(made.origin.nodes[-1])
        readers = [op for op in self._graph.consumers(tensor) if op in ops]
        return all(port.module in _paths(op.origin.nodes[0]) for op in readers)


def _is_of(op: Op | None, ops: Collection[Op]) -> bool:
    return op is not None and op in ops


def _paths(node: str) -> Sequence[str]:
    """Return the modules that a name of a node may state."""
    if not node.startswith("/"):
        return node, node.rpartition(".")[0]
    path: list[str] = []
    for part in node.strip("/").split("/")[:-1]:
        if path and part.startswith(f"{path[-1]}."):
            path[-1] = part
        else:
            path.append(part)
    return node, ".".join(path)
