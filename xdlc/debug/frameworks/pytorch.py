"""Programs of torch.export, interpreted node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdlc.compare.engines import Progress
from xdlc.debug.frameworks import Framework, add_framework


class _Program:
    """An exported program."""

    def __init__(self, path: str, _weights: str) -> None:
        import torch

        program = torch.export.load(path)
        self._module = program.module()
        nodes = self._module.graph.nodes
        self._nodes = [node for node in self._module.graph.nodes if node.op not in ("placeholder", "output")]
        self._holders = {node.name: node for node in nodes if node.op == "placeholder"}
        self.inputs = list(program.graph_signature.user_inputs)
        self.names = [node.name for node in nodes if node.op in ("call_function", "call_method")]
        entries = [([source.name for source in node.all_input_nodes], [node.name]) for node in self._nodes]
        self._progress = Progress(entries)

    def values(self, feeds: Mapping[str, Any], names: Sequence[str], sample: int) -> list[Any]:
        holders = dict(zip(self._holders, self.inputs, strict=True))
        fed = {holder: feeds[name] for holder, name in holders.items()}
        results = self._progress.values(fed, names, sample, self._run)
        return [_array(results[name]) for name in names]

    def _run(
        self, numbers: tuple[int, ...], feeds: Mapping[str, Any], names: Sequence[str]
    ) -> dict[str, Any]:
        import numpy
        import torch

        interpreter = torch.fx.Interpreter(self._module)
        nodes = [self._nodes[number] for number in numbers]
        last = {source: node for node in nodes for source in node.all_input_nodes}
        for source in (source for source in last if source.name in feeds):
            value = feeds[source.name]
            if source.op == "placeholder":
                value = torch.from_numpy(numpy.array(value)).to(source.meta["val"].dtype)
            interpreter.env[source] = value
        chosen, results = set(names), dict[str, Any]()
        with torch.no_grad():
            for node in nodes:
                interpreter.env[node] = interpreter.run_node(node)
                if node.name in chosen:
                    results[node.name] = interpreter.env[node]
                for source in node.all_input_nodes:
                    if last[source] is node:
                        interpreter.env.pop(source, None)
        return results


def _array(value: Any) -> Any:
    """Return a value as array; an empty one for what is no tensor."""
    import numpy
    import torch

    if not isinstance(value, torch.Tensor):
        return numpy.zeros(0)
    tensor = value.detach()
    return (tensor.float() if tensor.is_floating_point() else tensor).numpy().copy()


add_framework("pytorch", Framework("PyTorch", _Program, ("torch",), "pip install torch", channel_first=True))
