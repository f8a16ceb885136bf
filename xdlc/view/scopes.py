"""Scopes of ops: the modules of the source model that names tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdlc.ir import Graph, Op

DEEPEST = 32
"""Most scopes around an op; names with more parts come from no module."""
LONGEST = 4096
"""Characters of a name that are read for scopes."""
Path = tuple[str, ...]


@dataclass(slots=True)
class Scopes:
    """A tree of scopes.

    Attributes:
        rows: Name of each scope, and the index of the scope around it; -1: none.
        of_ops: Index of the scope of each op; -1: none.
    """

    rows: list[list[str | int]]
    of_ops: list[int]


@dataclass(slots=True, eq=False)
class _Scope:
    """A scope under construction: its scopes by name, and its ops by index."""

    inner: dict[str, _Scope] = field(default_factory=dict)
    ops: list[int] = field(default_factory=list)


def path_of(name: str, module: str | None = None) -> Path:
    """Return the scopes of a name, without the last part, which is the op's own.

    Args:
        name: Name of a source node or of an op.
        module: Path of its module, if the source states it apart from the name.

    Example:
        >>> path_of("/layer1/layer1.0/conv1/Conv"), path_of("block.0.conv"), path_of("Conv_3")
        (('layer1', 'layer1.0', 'conv1'), ('block', '0'), ())
    """
    if module is not None:
        return tuple(module[:LONGEST].split("/")[:DEEPEST]) if module else ()
    first = name[:LONGEST].partition(";")[0]
    parts = [part for part in first.split("/" if "/" in first else ".") if part]
    return tuple(parts[:-1][:DEEPEST])


def scopes_of_graph(graph: Graph, modules: Mapping[str, str]) -> Scopes:
    """Return the scopes of a graph's ops.

    An op has the scope of its first source node.  An op without source nodes has the scope of the op whose
    result it reads, or of the op that reads its result.  Without any source nodes, names of ops tell.

    Args:
        modules: Paths of modules by source node, where names of nodes do not tell them.
    """
    ops = list(graph.ops)
    has_nodes = any(op.origin.nodes for op in ops)
    paths = [_own_path(op, has_nodes, modules) for op in ops]
    tree = scopes(paths)
    places = {op: index for index, op in enumerate(ops)}
    waiting = {index for index, path in enumerate(paths) if path is None}
    for index in sorted(waiting):
        sources = (tensor.producer for tensor in ops[index].inputs if tensor is not None)
        _join(index, (places[source] for source in sources if source in places), tree, waiting)
    for index in sorted(waiting, reverse=True):
        readers = (reader for tensor in ops[index].outputs for reader in graph.consumers(tensor))
        _join(index, (places[reader] for reader in readers), tree, waiting)
    return tree


def _join(index: int, neighbours: Iterable[int], tree: Scopes, waiting: set[int]) -> None:
    """Put an op into the scope of its first neighbour that has one."""
    for neighbour in neighbours:
        if neighbour not in waiting:
            tree.of_ops[index] = tree.of_ops[neighbour]
            waiting.discard(index)
            return


def _own_path(op: Op, has_nodes: bool, modules: Mapping[str, str]) -> Path | None:
    if op.origin.nodes:
        return path_of(op.origin.nodes[0], modules.get(op.origin.nodes[0]))
    return None if has_nodes or op.is_inserted else path_of(op.name)


def scopes(paths: Sequence[Path | None]) -> Scopes:
    """Return the tree of scopes for the path of each op; None: the op is in no scope.

    A scope with one op and no scopes becomes the op itself; a scope whose only content is a scope joins it.
    """
    root = _Scope()
    for index, path in enumerate(paths):
        if path is None:
            continue
        scope = root
        for name in path:
            scope = scope.inner.setdefault(name, _Scope())
        scope.ops.append(index)
    result = Scopes([], [-1] * len(paths))
    _add(root, -1, result)
    return result


def _add(scope: _Scope, number: int, result: Scopes) -> None:
    """Add the content of a scope to the tree."""
    for name, inner in _joined(scope):
        if not inner.inner and len(inner.ops) == 1:
            result.of_ops[inner.ops[0]] = number
            continue
        result.rows.append([name, number])
        _add(inner, len(result.rows) - 1, result)
    for op in scope.ops:
        result.of_ops[op] = number


def _joined(scope: _Scope) -> Iterator[tuple[str, _Scope]]:
    """Yield the scopes of a scope; chains of scopes with nothing else are one."""
    for name, inner in scope.inner.items():
        while not inner.ops and len(inner.inner) == 1:
            ((last, inner),) = inner.inner.items()
            name = f"{name}/{last}"
        yield name, inner
