"""Values of a TensorFlow graph's variables: which checkpoint tensor is which.

Of these the first that applies:

1. the graph of saved objects: the last arguments of a function that a node of the main graph calls are
   objects, and the checkpoint has the key of each by the same number;
2. the restoring nodes of the saver: a variable that output k of RestoreV2 is assigned to has its name k;
3. the variable's name, or its shared name, where it is a key, or the full name of one saved object alone;
4. the value that the graph assigns to the variable at first.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from xdlc import ir
from xdlc.converter.tensorflow.bundle import Bundle
from xdlc.converter.tensorflow.nodes import attribute_messages, data_inputs, port, text
from xdlc.converter.tensorflow.tensors import shape_of
from xdlc.errors import ModelError

VARIABLES = ("VarHandleOp", "Variable", "VariableV2")
_ASSIGNS = ("Assign", "AssignVariableOp")
_PASSING = ("Identity", "ReadVariableOp", "Cast")
_VALUE = "VARIABLE_VALUE"


class Variables:
    """The variables of a main graph.

    Args:
        nodes: ``NodeDef`` of the main graph by name.
        prefix: Path of the checkpoint without ``.index``; None if omitted.
        objects: ``SavedObjects`` of the graph; None if omitted.
        path: The model, for errors.
    """

    def __init__(self, nodes: dict[str, Any], prefix: Path | None, objects: Any, path: str) -> None:
        self.initial: list[str] = []
        self._nodes = nodes
        self._prefix = prefix
        self._saved = objects
        self._path = path

    def find(self, name: str) -> ir.TensorData | str:
        """Return the elements of a variable, or the name of its initial value.

        Args:
            name: Name of the node that holds it.

        Raises:
            ModelError: If it has no value, or one that does not fit it.
        """
        key, sizes = self._key(name)
        if key is not None and self._bundle is not None:
            data = self._bundle.data(key)
            where = f"{self._path}: variable {name!r}"
            data = _part(data, sizes, where) if sizes else data
            value = attribute_messages(self._nodes[name]).get("shape")
            stated = shape_of(value.shape, where) if value is not None else None
            if stated and (
                len(stated) != len(data.shape)
                or any(a not in (None, b) for a, b in zip(stated, data.shape, strict=True))
            ):
                raise ModelError(
                    f"the variable is {list(data.shape)} in the checkpoint, but {list(stated)} in the graph",
                    where=where,
                    fix="use the model's own checkpoint: this checkpoint belongs to another model",
                )
            return data
        if self._bundle is None or name not in self._initial:
            raise self._problem(name)
        self.initial.append(name)
        return self._initial[name]

    def _problem(self, name: str) -> ModelError:
        where = f"{self._path}: variable {name!r}"
        if self._bundle is not None:
            fix = "save the model again, after its variables have values"
            return ModelError(f"the variable is not in the checkpoint {self._prefix}", where=where, fix=fix)
        fix = "pass the SavedModel's folder, the .meta file next to its checkpoint, or a frozen graph"
        return ModelError("the variable has no value: there is no checkpoint", where=where, fix=fix)

    @cached_property
    def _bundle(self) -> Bundle | None:
        if self._prefix is None or not self._prefix.with_name(self._prefix.name + ".index").is_file():
            return None
        return Bundle(self._prefix)

    def _key(self, name: str) -> tuple[str | None, str]:
        """Return key and part of a variable in the checkpoint; None if it is missing."""
        if self._bundle is None:
            return None, ""
        if name in self._bound:
            return self._bound[name], ""
        key, sizes = self._restored.get(name, ("", ""))
        if key in self._bundle:
            return key, sizes
        shared = attribute_messages(self._nodes[name]).get("shared_name")
        for each in (name, text(shared.s) if shared is not None else ""):
            if each and each in self._bundle:
                return each, ""
            if len(self._full_names.get(each, ())) == 1:
                return self._full_names[each][0], ""
        return None, ""

    @cached_property
    def _objects(self) -> Any:
        return None if self._bundle is None else self._bundle.objects()

    @cached_property
    def _bound(self) -> dict[str, str]:
        """Keys of variables passed to function calls, by name of the node."""
        keys: dict[str, str] = {}
        if self._saved is None or self._objects is None:
            return keys
        functions = {text(entry.key): entry.value.bound_inputs for entry in self._saved.concrete_functions}
        for node in self._nodes.values():
            value = attribute_messages(node).get("f")
            bound = functions.get(text(value.func.name)) if value is not None else None
            inputs = list(data_inputs(node))
            for name, number in zip(reversed(inputs), reversed(bound or []), strict=False):
                if 0 <= number < len(self._objects.nodes):
                    keys |= {port(name).node: key for key, _ in self._saved_keys(self._objects.nodes[number])}
        return keys

    def _saved_keys(self, saved_object: Any) -> Iterator[tuple[str, str]]:
        """Iterate over the keys of an object's values in the checkpoint, and full names."""
        for attribute in saved_object.attributes:
            key = text(attribute.checkpoint_key)
            if text(attribute.name) == _VALUE and self._bundle is not None and key in self._bundle:
                yield key, text(attribute.full_name)

    @cached_property
    def _full_names(self) -> dict[str, list[str]]:
        keys: dict[str, list[str]] = {}
        for saved_object in self._objects.nodes if self._objects is not None else ():
            for key, full_name in self._saved_keys(saved_object):
                keys.setdefault(full_name, []).append(key)
        return keys

    @cached_property
    def _assigned(self) -> list[tuple[str, str]]:
        """Names of assigned variables, and of the values assigned."""
        assigned = []
        for node in self._nodes.values():
            inputs = list(data_inputs(node))
            if text(node.op) in _ASSIGNS and len(inputs) == 2:
                assigned.append((port(inputs[0]).node, inputs[1]))
        return assigned

    @cached_property
    def _restored(self) -> dict[str, tuple[str, str]]:
        """Key and part of each variable that a restore node is assigned to."""
        restored: dict[str, tuple[str, str]] = {}
        for name, value in self._assigned:
            source, node = self._source(value)
            if node is None or text(node.op) != "RestoreV2":
                continue
            keys, parts = (
                [*self._strings(source_name)] for source_name in [*data_inputs(node), "", "", ""][1:3]
            )
            if source.number < len(keys):
                restored[name] = (
                    keys[source.number],
                    parts[source.number] if source.number < len(parts) else "",
                )
        return restored

    @cached_property
    def _initial(self) -> dict[str, str]:
        """Name of the value that is assigned to each variable at first."""
        values: dict[str, str] = {}
        for name, value in self._assigned:
            node = self._source(value)[1]
            if node is not None and text(node.op) != "RestoreV2":
                values.setdefault(name, value)
        return values

    def _source(self, value: str) -> tuple[Any, Any]:
        """Return the output that a value passes on, through identities, and its node."""
        for _ in range(16):
            source = port(value)
            node = self._nodes.get(source.node)
            inputs = list(data_inputs(node)) if node is not None else []
            if node is None or text(node.op) not in _PASSING or not inputs:
                break
            value = inputs[0]
        return source, node

    def _strings(self, name: str) -> Iterator[str]:
        node = self._nodes.get(port(name).node)
        value = attribute_messages(node).get("value") if node is not None else None
        if value is not None:
            yield from map(text, value.tensor.string_val)


def _part(data: ir.TensorData, sizes: str, where: str) -> ir.TensorData:
    """Return the part of a partitioned variable that a node stores.

    Args:
        sizes: Sizes of the whole, then first index and size of the part by axis, or ``-`` for all of it:
            ``130 300 0,44:-``.
    """
    spans = sizes.split(" ")[-1].split(":")
    try:
        pairs = [tuple(map(int, span.split(","))) if span != "-" else None for span in spans]
        place = tuple(
            slice(0, size) if pair is None else slice(pair[0], pair[0] + pair[1])
            for pair, size in zip(pairs, data.shape, strict=True)
        )
    except (ValueError, IndexError):
        place = ()
    if len(place) != len(data.shape) or any(
        not 0 <= span.start <= span.stop <= size for span, size in zip(place, data.shape, strict=True)
    ):
        raise ModelError(
            f"part {sizes[:80]!r} of the variable is not in the checkpoint",
            where=where,
            fix="save the model again",
        )
    shape = tuple(span.stop - span.start for span in place)
    return data.transform(lambda array: array[place], shape=shape)
