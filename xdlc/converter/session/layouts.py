"""Which values of the source are channels first, so that they can lie channels last from the start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdlc.converter.onnx.nodes import domain_of
from xdlc.converter.operators import sequences
from xdlc.converter.operators.registry import ANY, CHANNEL_LAST, find
from xdlc.converter.session.diagnostics import LAYOUTS, Findings
from xdlc.converter.values import Value, channel_last


def wants_channel_last(
    nodes: Sequence[Any], opsets: Mapping[str, int], is_udo: Callable[[Any], bool]
) -> set[str]:
    """Return the values that reach a channel-last op through ops that take any order.

    Args:
        nodes: ``NodeProto`` of one graph, producers first.
        opsets: Operator versions by domain.
        is_udo: Whether a node becomes an op that a user defines.
    """
    wanted: set[str] = set()
    for node in reversed(nodes):
        domain = domain_of(node)
        entry = find(domain, node.op_type, opsets.get(domain, 1))
        takes_any = sequences.find(node.op_type, domain) is not None
        if is_udo(node):
            takes_any = False
        elif entry is not None:
            takes_any = entry.layout == ANY
            if entry.layout == CHANNEL_LAST:
                wanted.add(node.input[0])
        if takes_any and any(name in wanted for name in node.output):
            wanted.update(name for name in node.input if name)
    return wanted


def note_layout(findings: Findings, name: str, value: Value) -> None:
    """Note the meaning of the axes of an input or output whose axis 1 is known to be the channels."""
    if value.rank in LAYOUTS and value.order == channel_last(value.rank):
        findings.layouts[name] = LAYOUTS[value.rank]
