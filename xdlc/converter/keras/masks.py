"""Masks of steps, which Keras passes along with tensors without stating them."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.converter.keras.registry import Operand
from xdlc.converter.session.node import Node
from xdlc.converter.session.ordering import Step, ordered
from xdlc.errors import UnsupportedOp

_PASSING = """
Identity Activation ReLU LeakyReLU ELU PReLU Softmax ThresholdedReLU Dense BatchNormalization
LayerNormalization GroupNormalization UnitNormalization Normalization Rescaling ActivityRegularization
Dropout SpatialDropout1D SpatialDropout2D SpatialDropout3D AlphaDropout GaussianDropout GaussianNoise
"""
"""Layers whose outputs have the masks of their inputs."""
_MERGING = ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum", "Concatenate", "Dot")
_RECURRENT = ("LSTM", "GRU", "SimpleRNN", "RNN", "Bidirectional", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")
_READING = (*_RECURRENT, "Softmax", "GlobalAveragePooling1D")
"""Layers that a mask changes."""
_ATTENTION = ("Attention", "AdditiveAttention")
_HEADS = ("MultiHeadAttention", "GroupQueryAttention")
_UNKNOWN = "?"
"""In place of the name of a mask that several masks make."""


def with_masks(nodes: Sequence[Node], outputs: Sequence[str], where: str) -> list[Node]:
    """Return the nodes, with mask computations added for the nodes that need masks.

    Raises:
        ModelError: If a node needs its own result.
        UnsupportedOp: If a layer merging several masks is not supported.
    """
    if not any(_makes(node) for node in nodes):
        return list(nodes)
    links = [Step(node.own_name, node.names, node.outputs) for node in nodes]
    masks: dict[str, str] = {}
    masked_nodes: list[Node] = []
    for index in ordered(links, outputs, where):
        node = nodes[index]
        masked_nodes.append(node)
        mask = masks.get(node.names[0]) if node.names and not node.domain else None
        if _makes(node):
            mask = f"{node.outputs[0]}/mask"
            options = {name: node.attributes[name] for name in ("mask_value",) if name in node.attributes}
            masked_nodes.append(Node(node.type, node.names[:1], [mask], options, mask, "mask"))
        elif node.type in _READING and mask and "mask" not in node.attributes:
            node.attributes["mask"] = _added(node, mask, where)
        elif node.type in _HEADS:
            for name in ("query", "value", "key"):
                argument = Operand(0) if name == "query" else node.attributes.get(name)
                own = masks.get(node.names[argument.place]) if isinstance(argument, Operand) else None
                if own and f"{name}_mask" not in node.attributes:
                    node.attributes[f"{name}_mask"] = _added(node, own, where)
        elif node.type in _ATTENTION and "mask" not in node.attributes:
            arguments = node.attributes.get("inputs") or []
            listed = [masks.get(node.names[item.place]) for item in arguments if isinstance(item, Operand)]
            if any(listed):
                node.attributes["mask"] = [_added(node, own, where) if own else None for own in listed]
        mask = _after(node, mask, masks)
        if mask:
            masks[node.outputs[0]] = mask
    return masked_nodes


def _makes(node: Node) -> bool:
    """Return whether a layer outputs a mask."""
    if node.domain:
        return False
    return node.type == "Masking" or (node.type == "Embedding" and bool(node.attributes.get("mask_zero")))


def _after(node: Node, mask: str | None, masks: dict[str, str]) -> str | None:
    """Return the mask of the first output of a layer; None if it has none."""
    if node.domain:
        return None
    if node.type in _RECURRENT:
        inner = [node.attributes, *(each["config"] for each in node.attributes.get("inner", ()))]
        return mask if any(config.get("return_sequences") for config in inner) else None
    if node.type in _MERGING:
        held = [masks.get(name) for name in node.names]
        if not any(held) or (node.type != "Concatenate" and not all(held)):
            return None
        return mask if len(set(held)) == 1 and node.type != "Concatenate" else _UNKNOWN
    if node.type == "TimeDistributed":
        return masks.get(node.names[-1])
    if _makes(node) or node.type in (*_PASSING.split(), *_HEADS, *_ATTENTION):
        return mask
    return None


def _added(node: Node, mask: str, where: str) -> Operand:
    """Add a mask to the inputs of a layer."""
    if mask == _UNKNOWN:
        raise UnsupportedOp(
            "xdlc cannot merge several masks",
            where=f"{where}: layer {node.own_name!r} ({node.type})",
            fix="pass the mask as an argument: layer(x, mask=mask)",
        )
    node.names = [*node.names, mask]
    return Operand(len(node.names) - 1)
