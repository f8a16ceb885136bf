"""Names of weights that quantization stored anew, from the modules that read them.

``convert_pt2e`` replaces a weight by its integers as a buffer ``_frozen_paramN`` of the outermost module, so
that encodings for ``net.0.weight`` would find nothing.  The call that reads it states its module still.
torchao's integers are ``net.0.parametrizations.weight.original0`` after ``unwrap_tensor_subclass``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from xdlc.converter.pytorch.calls import Call, CallGraph, Ref

_FROZEN = re.compile(r"(?:.*\.)?_frozen_param\d+(?:_\d+)?")
_UNWRAPPED = re.compile(r"(.*)\.parametrizations\.(\w+)\.original0")
_INTEGERS = frozenset(range(5))  # c10/core/ScalarType.h
_RESTORING = "dequantize"
_KEEPING = ("to", "_to_copy", "t", "transpose", "permute", "view", "reshape", "clone", "contiguous", "detach")
"""Operators between the stored integers and the layer: of another type, shape or order."""


def frozen_names(graph: CallGraph, parameters: Mapping[str, str]) -> dict[str, str]:
    """Return the names that weights had before quantization, by value.

    Args:
        graph: The calls of a program.
        parameters: Names in the state_dict by value.
    """
    wanted = {value for value, name in parameters.items() if _FROZEN.fullmatch(name)}
    unwrapped = {value: made for value, name in parameters.items() if (made := _UNWRAPPED.fullmatch(name))}
    if not wanted and not unwrapped:
        return {}
    readers: dict[str, list[Call]] = {}
    for call in graph.calls:
        for ref in call.refs():
            readers.setdefault(ref, []).append(call)
    read = {name for value, name in parameters.items() if value in readers}
    found: dict[str, str] = {}
    for value in parameters:
        name = ""
        if value in wanted:
            name = next(_weights(value, readers, set()), "")
        elif value in unwrapped and graph.values[value].dtype in _INTEGERS:
            name = ".".join(unwrapped[value].groups())
        if name and name not in read and name not in found.values():
            found[value] = name
    return found


def _weights(value: str, readers: Mapping[str, list[Call]], seen: set[str]) -> Iterator[str]:
    """Iterate over the names of weights in layers that read a value after it is restored."""
    if value in seen:
        return
    seen.add(value)
    for call in readers.get(value, ()):
        operator = call.target.split(".")[1]
        if operator.startswith(_RESTORING) or operator in _KEEPING:
            for output in call.outputs:
                yield from _weights(output, readers, seen)
        elif call.module and call.arguments.get("weight") == Ref(value):
            yield f"{call.module}.weight"
