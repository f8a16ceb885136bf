"""Files of compiled kernels: a shared library, and its calls as JSON.

The files are in the folder ``kernel_meta`` beside the DLC.  ``NAME.json`` has the library's file, SHA-256,
entry, machine and compiler, and a list of calls: ops, their shapes and parameters, arguments.  Ops are found
by their names; another shape or parameter shows that a file is of another model.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xdlc.errors import ModelError, UsageError
from xdlc.ir import Op, Scalar
from xdlc.ir.dtype import BY_NAME
from xdlc.ir.files import read_bytes
from xdlc.json_fields import Fields, Node, Scope, json_value
from xdlc.opdefs.source_match import Kernel

FOLDER = "kernel_meta"
_LARGEST_TEXT = 1 << 24
_LARGEST_LIBRARY = 1 << 27
_MOST_ELEMENTS = 1 << 18
_LIBRARY_FIELDS = ("library", "sha256", "entry", "machine", "tool", "calls")
_CALL_FIELDS = ("package", "type", "name", "ops", "shapes", "params", "arguments", "values")
_AGAIN = "convert the model again with its plugin"


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a kernel by ops.

    Attributes:
        ops: Their names.
        shapes: Shapes of their inputs and outputs.
        params: Their scalar parameters.
        path: The file that states the call; empty before it is written.
    """

    package: str
    type: str
    ops: tuple[str, ...]
    shapes: Sequence[Any]
    params: Mapping[str, Any]
    kernel: Kernel
    path: str = ""

    @property
    def origin(self) -> str:
        """The kernel, for messages."""
        kernel = self.kernel
        return f"{self.path}: kernel {kernel.name!r}, built by {kernel.tool!r} for {kernel.machine!r}"

    def names(self, op: Op) -> bool:
        """Return whether the call lists an op, by its package, type and name."""
        return (self.package, self.type) == (op.package, op.type) and op.name in self.ops

    def fits(self, op: Op) -> bool:
        """Return whether an op has the shapes and parameters of the call."""
        return self.shapes == shapes_of(op) and _alike(self.params, params_of(op))


def shapes_of(op: Op) -> list[Any]:
    """Return the shapes of an op's inputs and outputs, None for an omitted input."""
    return [None if tensor is None else list(tensor.shape) for tensor in (*op.inputs, *op.outputs)]


def params_of(op: Op) -> dict[str, Any]:
    """Return the scalar parameters of an op."""
    return {name: param.value for name, param in op.params.items() if isinstance(param, Scalar)}


def _alike(first: Mapping[str, Any], second: Mapping[str, Any]) -> bool:
    def is_near(stated: Any, actual: Any) -> bool:
        if not isinstance(stated, float) or not isinstance(actual, float):
            return bool(stated == actual)
        return math.isclose(stated, actual, rel_tol=1e-6) or (math.isnan(stated) and math.isnan(actual))

    return first.keys() == second.keys() and all(is_near(first[name], second[name]) for name in first)


# ------------------------------------------------------------------ writing


def kernel_files(calls: Iterable[Call]) -> dict[str, bytes]:
    """Return the contents of kernel files by path relative to the DLC's folder.

    Kernels of one library, entry and name share two files.

    Raises:
        UsageError: If an argument has no form as JSON.
    """
    groups: dict[tuple[str, str, bytes], list[Call]] = {}
    for call in calls:
        kernel = call.kernel
        groups.setdefault((kernel.name, kernel.entry, kernel.binary), []).append(call)
    files: dict[str, bytes] = {}
    for (name, entry, binary), group in groups.items():
        stem = plain = re.sub(r"[^0-9A-Za-z_]", "_", name) or "kernel"
        number = 0
        while f"{FOLDER}/{stem}.json" in files:
            number += 1
            stem = f"{plain}_{number}"
        kernel = group[0].kernel
        description = {
            "library": f"{stem}.so",
            "sha256": hashlib.sha256(binary).hexdigest(),
            "entry": entry,
            "machine": kernel.machine,
            "tool": kernel.tool,
            "calls": list(map(_call_json, group)),
        }
        files[f"{FOLDER}/{stem}.json"] = f"{json.dumps(description, indent=2)}\n".encode()
        files[f"{FOLDER}/{stem}.so"] = binary
    return files


def call_key(call: Call) -> tuple[str, bytes]:
    """Return a key that is equal for calls that differ only in their ops.

    Raises:
        UsageError: If an argument has no form as JSON.
    """
    return json.dumps([call.kernel.entry, _call_json(call) | {"ops": []}]), call.kernel.binary


def _call_json(call: Call) -> dict[str, Any]:
    kernel = call.kernel
    return {
        "package": call.package,
        "type": call.type,
        "name": kernel.name,
        "ops": list(call.ops),
        "shapes": call.shapes,
        "params": dict(call.params),
        "arguments": kernel.arguments,
        "values": [_value_json(value, kernel.name) for value in kernel.values],
    }


def _value_json(value: Any, kernel: str) -> Any:
    """Return an argument of a kernel as a JSON value."""
    if hasattr(value, "item") and not value.shape:
        value = value.item()
    if isinstance(value, int | float | str):
        return value
    name = value.dtype.name if hasattr(value, "dtype") else type(value).__name__
    if _plain_dtype(name) is None or value.size > _MOST_ELEMENTS:
        raise UsageError(
            f"the kernel has an argument of type {name}, or a number above 64 bits",
            where=f"kernel {kernel!r}",
            fix=f"pass numbers, strings and arrays of at most {_MOST_ELEMENTS} elements; pass other values "
            "as inputs",
        )
    return {"dtype": name, "shape": list(value.shape), "elements": value.reshape(-1).tolist()}


def _plain_dtype(name: str) -> Any:
    """Return the numpy dtype of a type of arguments, or None."""
    dtype = BY_NAME.get("bool8" if name == "bool" else name)
    return dtype.numpy if dtype is not None and dtype.bits >= 8 and not dtype.is_fixed else None


# ------------------------------------------------------------------ reading


def read_calls(path: Path) -> list[Call]:
    """Return the calls that a ``.json`` file of kernels states.

    Raises:
        StorageError: If it or its library cannot be read.
        ModelError: If it is damaged, or its library is another one; a ProblemList of several problems.
    """
    scope = Scope(str(path))
    try:
        value = json_value(_content(path, _LARGEST_TEXT).decode("utf-8"))
    except ValueError as error:
        raise ModelError(f"is not JSON: {error}", where=str(path), fix=_AGAIN) from error
    calls: list[Call] = []
    with scope.collected():
        calls += _calls(value, path, scope)
    return calls


def _calls(value: Any, path: Path, scope: Scope) -> Iterator[Call]:
    fields = Fields(Node(value), "the description of a kernel", scope, _LIBRARY_FIELDS)
    texts = {name: fields.text(name) for name in ("library", "sha256", "entry", "machine", "tool")}
    for name in ("library", "entry", "machine"):
        fields.need(name, '"..."')
    name = texts["library"]
    binary = b""
    if name and name == Path(name).name:
        binary = _content(path.with_name(name), _LARGEST_LIBRARY)
        if hashlib.sha256(binary).hexdigest() != texts["sha256"]:
            fields.report("sha256", f"{name} has another SHA-256 than this file states", _AGAIN)
    elif name:
        fields.report("library", "library must be a file next to this file", _AGAIN)
    for node in fields.items("calls"):
        call = Fields(node, "a call", scope, _CALL_FIELDS)
        arguments = call.text("arguments")
        values = tuple(_value(value, scope) for value in call.items("values"))
        if len(arguments) != len(values):
            call.report(
                "values", f"the call has {len(values)} values, but the arguments {arguments!r}", _AGAIN
            )
        shapes = [each.value for each in call.items("shapes")]
        params = {name: each.value for name, each in call.members("params").items()}
        kernel = Kernel(
            call.text("name"), texts["entry"], arguments, values, texts["machine"], texts["tool"], binary
        )
        ops = call.strings("ops")
        yield Call(call.text("package"), call.text("type"), ops, shapes, params, kernel, str(path))


def _content(path: Path, most: int) -> bytes:
    content = read_bytes(path, most)
    if len(content) > most:
        raise ModelError(f"has more than {most} bytes", where=str(path), fix=_AGAIN)
    return content


def _value(node: Node, scope: Scope) -> Any:
    """Return an argument of a kernel."""
    import numpy

    if isinstance(node.value, int | float | str):
        return node.value
    fields = Fields(node, "an array", scope, ("dtype", "shape", "elements"))
    name, shape = fields.text("dtype"), [each.value for each in fields.items("shape")]
    elements = [each.value for each in fields.items("elements")]
    try:
        dtype = _plain_dtype(name)
        if dtype is None:
            raise ValueError(f"there is no type {name!r}")
        return numpy.array(elements, dtype).reshape(shape)
    except (ValueError, TypeError, OverflowError) as error:
        scope.report(node.path, f"the array cannot be read: {error}", _AGAIN)
        return 0
