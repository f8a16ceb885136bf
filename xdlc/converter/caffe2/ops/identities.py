"""Handlers of operators that copy their input at inference."""

from __future__ import annotations

from xdlc.converter.caffe2.registry import flag, operator
from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import ANY
from xdlc.converter.values import Value

_COPIES = """
Alias AliasWithName AsyncNetBarrier Copy CopyCPUToGPU CopyCPUToIDEEP CopyCPUToMKL CopyCPUToOpenGL
CopyFromCPUInput CopyFromOpenGL CopyGPUToCPU CopyIDEEPToCPU CopyMKLToCPU CopyOnDeviceLike CopyToOpenGL
EnsureCPUOutput EnsureDense NanCheck StopGradient
"""


@operator(*_COPIES.split(), layout=ANY, ignores=("name", "is_backward"))
def _copy(node: Node, g: Operators, x: Value, *others: Value) -> list[Value]:
    """Return the inputs; inputs beyond the outputs only state a device or an order."""
    return [x, *others][: len(node.outputs)]


@operator("Dropout", layout=ANY, ignores=("ratio",))
def _dropout(node: Node, g: Operators, x: Value) -> Value:
    """Return the input; without is_test a notice states that the net is for training."""
    if not flag(node, "is_test"):
        notice = f"{g.context.source.describe(node)}: is_test is not set, but the DLC drops no values"
        g.context.diagnostics.notices.append(notice)
    return x
