"""Programs of TorchScript archives: their code, evaluated for the shapes of the inputs.

Attributes that ``forward`` sets, and tensors that it changes, are state: the program is that of a later call.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from xdlc.converter.pytorch.archive import Archive
from xdlc.converter.pytorch.exported import Program, understood
from xdlc.converter.pytorch.pickled import Record, StoredTensor
from xdlc.converter.pytorch.script.code import Code
from xdlc.converter.pytorch.script.evaluation import Counted, Evaluation, ScriptInput, alike
from xdlc.converter.pytorch.script.first_call import agree
from xdlc.converter.pytorch.script.recorder import WrongType
from xdlc.converter.pytorch.script.types import INT64
from xdlc.converter.pytorch.unpickling import unpickle
from xdlc.converter.session.boundary import DeclaredInput, input_shapes
from xdlc.errors import ModelError, UnsupportedOp, UsageError

_MOST_CALLS = 5
_FORWARD = "forward"


def read_script(
    path: str | os.PathLike[str],
    input_dims: Mapping[str, Sequence[int]],
    batch: int | None,
    values: Mapping[str, Any],
) -> Program:
    """Return the program of a TorchScript file, for the shapes of inputs.

    Args:
        path: The file.
        input_dims: Shapes by input name.
        batch: First dimension of every input.
        values: Values of inputs, of which numbers become part of the program.

    Raises:
        XdlcError: If the file is damaged, or the program has no form without data.
    """
    archive = Archive(path)
    with understood(str(path)):
        return _Reader(archive, input_dims, values).program(input_dims, batch)


class _Reader:
    """Reader of one archive."""

    def __init__(self, archive: Archive, given: Collection[str], values: Mapping[str, Any]) -> None:
        self._archive = archive
        self._where = str(archive.path)
        self._values = values
        self._code = Code(archive)
        self._root = self._pickle("data.pkl")
        self._constants = self._pickle("constants.pkl") if "constants.pkl" in archive else ()
        if not isinstance(self._root, Record):
            raise ModelError("holds no network", where=self._where, fix="save it with torch.jit.save")
        forward = self._code.method(self._root.kind, _FORWARD)
        if forward is None:
            raise ModelError("has no method forward", where=self._where, fix="give forward to the network")
        self._forward = forward
        self._inputs = self._declared(given)

    def _pickle(self, name: str) -> Any:
        return unpickle(self._archive.read(name), f"{self._where}: {name}")

    # ------------------------------------------------------------------ inputs

    def _declared(self, given: Collection[str]) -> list[ScriptInput]:
        """Return the inputs of the network.

        Args:
            given: Names of inputs with a shape, of which those of a list show how long it is.
        """
        arguments = self._forward.args
        defaults: list[Any] = [None] * (len(arguments.args) - len(arguments.defaults)) + [*arguments.defaults]
        traced = self._pickle("traced_inputs.pkl") if "traced_inputs.pkl" in self._archive else {}
        shown = traced.get(_FORWARD, []) if isinstance(traced, dict) else []
        examples = list(shown) if isinstance(shown, list | tuple) else []
        found = []
        for argument, default in list(zip(arguments.args, defaults, strict=True))[1:]:
            kind = "Any" if argument.annotation is None else ast.unparse(argument.annotation)
            entry = ScriptInput(argument.arg, kind, default=default)
            example = examples.pop(0) if examples else None
            kinds = [each.strip() for each in kind[6:-1].split(",")] if kind.startswith("Tuple[") else []
            if kind == "List[Tensor]":
                count = sum(name.startswith(f"{entry.name}_") for name in given)
                kinds = ["Tensor"] * max(count, len(example) if isinstance(example, list) else 1)
            if kinds:
                found += self._parts(entry, kinds, example)
                continue
            if isinstance(example, StoredTensor):
                entry.shape, entry.dtype, entry.is_stated = example.shape, example.storage.number, True
            found.append(entry)
        return found

    @staticmethod
    def _parts(entry: ScriptInput, kinds: Sequence[str], example: Any) -> list[ScriptInput]:
        """Return the tensors of an input that is a tuple or list of them."""
        examples = example if isinstance(example, tuple | list) else [None] * len(kinds)
        found = []
        for index, (each, shown) in enumerate(zip(kinds, examples, strict=False)):
            part = ScriptInput(f"{entry.name}_{index}", each, part=index + 1, whole=entry.kind)
            if isinstance(shown, StoredTensor):
                part.shape, part.dtype, part.is_stated = shown.shape, shown.storage.number, True
            found.append(part)
        return found

    def _shapes(
        self, input_dims: Mapping[str, Sequence[int]], batch: int | None
    ) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the inputs that are tensors.

        Raises:
            UsageError: If they are not known.
        """
        declared = [
            DeclaredInput(each.name, each.shape)
            for each in self._inputs
            if each.kind == "Tensor" or (each.kind == "Optional[Tensor]" and each.name in input_dims)
        ]
        numbers = [each.name for each in self._inputs if each.kind in ("int", "float", "bool")]
        dims = {name: dims for name, dims in input_dims.items() if name not in numbers or list(dims)}
        shapes = input_shapes(declared, self._where, input_dims=dims, symbols={}, batch=batch, fixed=())
        for name, shape in shapes.items():
            if None in shape:
                raise UsageError(
                    f"input {name!r} has a dynamic dimension, but TorchScript computes with sizes",
                    where=self._where,
                    fix="give a number for each dimension, or export the network with torch.export",
                )
        return {name: tuple(size or 0 for size in shape) for name, shape in shapes.items()}

    # ------------------------------------------------------------------ evaluation

    def program(self, input_dims: Mapping[str, Sequence[int]], batch: int | None) -> Program:
        """Return the program of a call that all later ones are like.

        Raises:
            UnsupportedOp: If there is none.
        """
        shapes = self._shapes(input_dims, batch)
        states: dict[str, Any] = {}
        first = self._evaluated(shapes, states)
        for count in range(_MOST_CALLS):
            call = self._evaluated(shapes, states) if count else first
            if all(path in states and alike(states[path], end) for path, end in call.ends.items()):
                if call.moved and not agree(first, call):
                    break
                return call.program
            for path, end in call.ends.items():
                is_counted = isinstance(end, int | float) and path in states
                states[path] = Counted(end) if is_counted else end
        names = ", ".join(repr(path) for path in sorted(call.ends))
        raise UnsupportedOp(
            f"attributes {names} have no state that each call starts with and leaves",
            where=self._where,
            fix="make them inputs and outputs of the network, or call it once before it is saved",
        )

    def _evaluated(self, shapes: Mapping[str, tuple[int, ...]], states: Mapping[str, Any]) -> Evaluation:
        """Return a call of the network; inputs that it takes for indices are integers."""
        while True:
            try:
                made = Evaluation(self._archive, self._code, states)
                made.call(self._root, self._constants, self._inputs, shapes, self._values)
                return made
            except WrongType as found:
                entry = next(each for each in self._inputs if each.name == str(found))
                entry.dtype, entry.is_stated = int(INT64), True
