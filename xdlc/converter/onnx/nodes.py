"""What the protobuf messages of nodes and graphs say: names, domains, and what they read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def plain_domain(domain: str) -> str:
    """Return a domain under its first name: that of ONNX's own operators is empty."""
    return "" if domain == "ai.onnx" else domain


def domain_of(node: Any) -> str:
    """Return the domain of a node's operator; ONNX's own is empty."""
    return plain_domain(node.domain)


def key_of(node: Any) -> tuple[str, str, str]:
    """Return the domain, name and overload by which a node names its operator or function."""
    return domain_of(node), node.op_type, node.overload


def full_type(node: Any) -> str:
    """Return a node's operator, with its domain in front where that is not ONNX's own."""
    domain = domain_of(node)
    return f"{domain}::{node.op_type}" if domain else str(node.op_type)


def name_of(node: Any) -> str:
    """Return a node's name, or one made from its first output."""
    return str(node.name) or next((name for name in node.output if name), node.op_type)


def inner_graphs(node: Any) -> Iterator[Any]:
    """Iterate over the graphs inside a node, not over those inside of them."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def all_nodes(graph: Any) -> Iterator[Any]:
    """Iterate over the nodes of a graph or function, and of the graphs inside of them."""
    for node in graph.node:
        yield node
        yield from inner_nodes(node)


def inner_nodes(node: Any) -> Iterator[Any]:
    """Iterate over the nodes of the graphs inside a node, and of those inside of them."""
    stack = list(inner_graphs(node))[::-1]
    while stack:
        for inner in stack.pop().node:
            yield inner
            stack.extend(inner_graphs(inner))


def node_count(graph: Any) -> int:
    """Return the number of nodes of a graph or function and of the graphs inside it."""
    return sum(1 for _ in all_nodes(graph))


def read_names(node: Any) -> Iterator[str]:
    """Iterate over the names of the values that a node and the graphs inside it read."""
    for found in (node, *inner_nodes(node)):
        yield from found.input
        for graph in inner_graphs(found):
            yield from (output.name for output in graph.output)


def needed_names(node: Any) -> list[str]:
    """Return the names that a node reads, those among them that the graphs inside it read from outside."""
    names = list(node.input)
    for graph in inner_graphs(node):
        made = {entry.name for entry in (*graph.input, *graph.initializer)}
        made.update(name for inner in graph.node for name in inner.output)
        read = [name for inner in graph.node for name in needed_names(inner)]
        read.extend(output.name for output in graph.output)
        names.extend(name for name in dict.fromkeys(read) if name not in made)
    return names
