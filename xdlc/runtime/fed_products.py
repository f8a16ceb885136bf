"""Integer convolutions between encodings that are fed.

onnxruntime makes one integer kernel of DequantizeLinear, Conv and QuantizeLinear where scales are constants
alone; the kernel itself reads them in each run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdlc.ir import ScaleOffset, Tensor
from xdlc.ir.quantization import quantized_limits

if TYPE_CHECKING:
    from xdlc.runtime.builder import Builder


def fuse_convolutions(b: Builder) -> None:
    """Make one node of each convolution and the rounding of its result.

    A clamp before a rounding is omitted if the graph's own encoding holds no values beyond it.
    """
    products = _Products(b)
    for node in b.nodes:
        if node.op_type == "QuantizeLinear":
            products.fuse(node)
    b.nodes[:] = [node for node in b.nodes if node.name not in products.dropped]


class _Products:
    """The nodes of a graph by the values that they make."""

    def __init__(self, b: Builder) -> None:
        self.dropped: set[str] = set()
        self._tensors = {names[0]: tensor for tensor, names in (b.adjusted or {}).items()}
        self._constants = {proto.name: proto for proto in b.constants}
        self._makers = {name: node for node in b.nodes for name in node.output}
        self._reads = Counter(name for node in b.nodes for name in node.input)

    def fuse(self, node: Any) -> None:
        """Make a node that rounds the result of a convolution do both."""
        result = self._tensors.get(node.input[1])
        if result is None:
            return
        maker = self._makers.get(node.input[0])
        while maker is not None and self._is_idle_clamp(maker, result):
            self._read(node, [maker.input[0], *node.input[1:]])
            maker = self._makers.get(node.input[0])
        if maker is None or maker.op_type != "Conv" or self._reads[node.input[0]] > 1:
            return
        read = [self._makers[name] for name in maker.input if name in self._makers]
        if len(read) < len(maker.input) or {stored.op_type for stored in read} != {"DequantizeLinear"}:
            return
        source, weight, *bias = read
        tensor = self._tensors.get(source.input[1])
        if tensor is None or tensor.dtype is not result.dtype:
            return
        node.op_type = "QLinearConv"
        del node.attribute[:]
        node.attribute.extend(maker.attribute)
        form = node.input[1:]
        self._read(node, [*source.input, *weight.input, *form, *(stored.input[0] for stored in bias)])

    def _read(self, node: Any, names: Sequence[str]) -> None:
        """Let a node read other values, and drop nodes that nobody reads then."""
        before = list(node.input)
        node.input[:] = names
        self._reads.update(names)
        for name in before:
            self._drop(name)

    def _is_idle_clamp(self, node: Any, result: Tensor) -> bool:
        """Return whether a node clamps what rounding its result clamps too."""
        from onnx import numpy_helper

        if node.op_type not in ("Relu", "Clip") or not isinstance(result.encoding, ScaleOffset):
            return False
        ends = [numpy_helper.to_array(self._constants[name]) if name else None for name in node.input[1:]]
        least, most, *_ = [0.0, None] if node.op_type == "Relu" else [*ends, None, None]
        scale, offset = result.encoding.scale, result.encoding.offset
        low, high = ((limit + offset) * scale for limit in quantized_limits(result))
        return bool((least is None or low > least - scale / 2) and (most is None or high < most + scale / 2))

    def _drop(self, value: str) -> None:
        """Drop what makes a value that one reader less has, if that was the last."""
        self._reads[value] -= 1
        maker = self._makers.get(value)
        if maker is not None and not self._reads[value]:
            self.dropped.add(maker.name)
            for name in maker.input:
                self._drop(name)
