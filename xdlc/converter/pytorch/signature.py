"""Names of the outputs of programs of torch.export, after the containers that a network returns."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_MOST_DEPTH = 64
_LONGEST = 128


def output_names(document: Mapping[str, Any], count: int) -> list[str]:
    """Return a name for each output: keys of dicts, fields of classes, else ``output_0`` and so on.

    Args:
        document: The module of the program, as JSON.
        count: Number of outputs.
    """
    plain = [f"output_{index}" for index in range(count)]
    try:
        entry = next(each for each in document["module_call_graph"] if not each["fqn"])
        spec = json.loads(entry["signature"]["out_spec"])[1]
        paths = list(_paths(spec, document.get("treespec_namedtuple_fields") or {}, ()))
    except (LookupError, TypeError, ValueError, AttributeError, StopIteration, RecursionError):
        return plain  # names alone are no reason to refuse a program
    if len(paths) != count:
        return plain
    return [joined(path) or name for path, name in zip(paths, plain, strict=True)]


def _paths(
    spec: Mapping[str, Any], fields: Mapping[str, Any], path: tuple[Any, ...]
) -> Iterator[tuple[Any, ...]]:
    """Iterate over the leaves of nested containers: positions and keys from the outermost on.

    Args:
        spec: The containers (torch/utils/_pytree.py, ``treespec_dumps``).
        fields: Names of the fields of named tuples by type.
        path: Path of the containers themselves.
    """
    if len(path) > _MOST_DEPTH:
        raise ValueError("containers nest too deep")
    if spec["type"] is None:
        yield path
        return
    children = spec["children_spec"]
    context = spec["context"]
    keys: Any = json.loads(context) if isinstance(context, str) else context
    if isinstance(keys, str) and keys in fields:
        keys = fields[keys]["field_names"]
    elif isinstance(keys, Mapping):  # a defaultdict
        keys = keys.get("dict_context")
    if not isinstance(keys, Sequence) or isinstance(keys, str) or len(keys) != len(children):
        keys = range(len(children))
    for key, child in zip(keys, children, strict=True):
        yield from _paths(child, fields, (*path, key))


def joined(path: Sequence[Any]) -> str:
    """Return a path as a name; empty if it consists of positions alone."""
    if all(isinstance(key, int) for key in path):
        return ""
    name = re.sub(r"\W", "_", "_".join(map(str, path)))[:_LONGEST]
    return f"output_{name}" if name[0].isdigit() else name
