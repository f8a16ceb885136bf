"""Programs of torch.export, interpreted node by node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdlc.debug.frameworks import Framework, add_framework


class _Program:
    """An exported program."""

    def __init__(self, path: str, _weights: str) -> None:
        import torch

        program = torch.export.load(path)
        self._module = program.module()
        nodes = self._module.graph.nodes
        self._holders = [node for node in nodes if node.op == "placeholder"]
        self.inputs = list(program.graph_signature.user_inputs)
        self.names = [node.name for node in nodes if node.op in ("call_function", "call_method")]

    def values(self, feeds: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
        import numpy
        import torch

        kept: dict[str, Any] = dict.fromkeys(names)
        interpreter: Any = torch.fx.Interpreter(self._module)
        compute = interpreter.run_node

        def run_node(node: Any) -> Any:
            value = compute(node)
            if node.name in kept and isinstance(value, torch.Tensor):
                array = value.detach()
                kept[node.name] = (array.float() if array.is_floating_point() else array).numpy().copy()
            return value

        interpreter.run_node = run_node
        arguments = []
        for name, holder in zip(self.inputs, self._holders, strict=True):
            like = holder.meta["val"]
            arguments.append(torch.from_numpy(numpy.array(feeds[name])).to(like.dtype))
        with torch.no_grad():
            interpreter.run(*arguments)
        return list(kept.values())


add_framework("pytorch", Framework("PyTorch", _Program, ("torch",), "pip install torch", channel_first=True))
