"""Programs of TorchScript archives, evaluated for the shapes of the inputs.

Attributes that ``forward`` sets, and tensors that it changes, are state: the program is that of a later call.
A network may make its state in its first call, where an empty tensor or a number marks that it is missing.
The program then has zeros as its first state: that this has the same effect is checked by running both.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xdlc.converter.pipeline import Options, SourceModel, finish, import_model
from xdlc.converter.pytorch.archive import Archive
from xdlc.converter.pytorch.exported import Program, understood
from xdlc.converter.pytorch.graph import source_graph
from xdlc.converter.pytorch.pickled import Record, StoredTensor, unpickle
from xdlc.converter.pytorch.registry import aten
from xdlc.converter.pytorch.script.evaluation import Evaluation, ScriptInput, alike
from xdlc.converter.pytorch.script.machine import Code
from xdlc.converter.pytorch.script.recorder import NUMBERS, WrongType
from xdlc.converter.pytorch.script.types import INT64
from xdlc.converter.pytorch.script.values import Tensor
from xdlc.converter.pytorch.symbols import Bindings
from xdlc.converter.session.boundary import input_shapes
from xdlc.converter.session.context import Source
from xdlc.converter.session.diagnostics import Diagnostics
from xdlc.converter.session.node import GraphInput
from xdlc.errors import ModelError, UnsupportedOp, UsageError, XdlcError

_MOST_CALLS = 5
_RELATIVE, _ABSOLUTE = 1e-3, 1e-5


def read_script(
    path: str | os.PathLike[str],
    input_dims: Mapping[str, Sequence[int]],
    batch: int | None,
    values: Mapping[str, Any],
) -> Program:
    """Return the program of a TorchScript file, for the shapes of inputs.

    Args:
        input_dims: Shapes by input name.
        batch: First dimension of every input.
        values: Values of inputs, of which numbers become part of the program.

    Raises:
        XdlcError: If the file is damaged, or the program has no form without data.
    """
    archive = Archive(path)
    with understood(str(path)):
        return _Reader(archive, values).program(input_dims, batch)


class _Reader:
    """Reader of one archive."""

    def __init__(self, archive: Archive, values: Mapping[str, Any]) -> None:
        self._archive = archive
        self._where = str(archive.path)
        self._values = values
        self._code = Code(archive)
        self._root = self._pickle("data.pkl")
        self._constants = self._pickle("constants.pkl") if "constants.pkl" in archive else ()
        if not isinstance(self._root, Record):
            raise ModelError(
                "the file contains no network", where=self._where, fix="save the model with torch.jit.save"
            )
        forward = self._code.method(self._root.kind, "forward")
        if forward is None:
            raise ModelError(
                "the model has no method forward", where=self._where, fix="define the method forward"
            )
        self._inputs = self._declared(forward.args)

    def _pickle(self, name: str) -> Any:
        return unpickle(self._archive.read(name), f"{self._where}: {name}")

    def _declared(self, arguments: ast.arguments) -> list[ScriptInput]:
        """Return the inputs of the network; parts of a tuple are separate inputs."""
        defaults: list[Any] = [None] * (len(arguments.args) - len(arguments.defaults)) + arguments.defaults
        traced = self._pickle("traced_inputs.pkl") if "traced_inputs.pkl" in self._archive else {}
        shown = traced.get("forward", []) if isinstance(traced, dict) else []
        examples = list(shown) if isinstance(shown, list | tuple) else []
        inputs = []
        for argument, default in list(zip(arguments.args, defaults, strict=True))[1:]:
            kind = "Any" if argument.annotation is None else ast.unparse(argument.annotation)
            example = examples.pop(0) if examples else None
            entries = [ScriptInput(argument.arg, kind, default=default)]
            if kind.startswith("Tuple["):
                kinds = [each.strip() for each in kind.removeprefix("Tuple[")[:-1].split(",")]
                entries = [
                    ScriptInput(f"{argument.arg}_{index}", each, part=index + 1)
                    for index, each in enumerate(kinds)
                ]
            parts: Sequence[Any] = [example]
            if entries[0].part and isinstance(example, tuple | list):
                parts = example
            for entry, part in zip(entries, parts, strict=False):
                if isinstance(part, StoredTensor):
                    entry.shape, entry.dtype, entry.is_stated = part.shape, part.storage.number, True
            inputs += entries
        return inputs

    def _shapes(
        self, input_dims: Mapping[str, Sequence[int]], batch: int | None
    ) -> dict[str, tuple[int, ...]]:
        """Return the shapes of the inputs that are tensors."""
        declared = [
            GraphInput(each.name, None, each.shape)
            for each in self._inputs
            if each.kind == "Tensor" or (each.kind == "Optional[Tensor]" and each.name in input_dims)
        ]
        numbers = [each.name for each in self._inputs if each.kind in NUMBERS]
        dims = {name: dims for name, dims in input_dims.items() if name not in numbers or list(dims)}
        shapes = input_shapes(declared, self._where, input_dims=dims, symbols={}, batch=batch, fixed=())
        for name, shape in shapes.items():
            if None in shape:
                raise UsageError(
                    f"input {name!r} has a dynamic dimension, but TorchScript requires static shapes",
                    where=self._where,
                    fix="pass a number for each dimension, or export the network with torch.export",
                )
        return {name: tuple(size or 0 for size in shape) for name, shape in shapes.items()}

    def program(self, input_dims: Mapping[str, Sequence[int]], batch: int | None) -> Program:
        """Return the program of a call after which the state repeats."""
        shapes = self._shapes(input_dims, batch)
        states: dict[str, Any] = {}
        first = call = self._evaluated(shapes, states)
        for _ in range(_MOST_CALLS):
            if all(path in states and alike(states[path], end) for path, end in call.ends.items()):
                if call.moved and not _agree(first, call):
                    break
                return call.program
            states |= call.ends
            call = self._evaluated(shapes, states)
        names = ", ".join(repr(path) for path in sorted(call.ends))
        raise UnsupportedOp(
            f"attributes {names} have different states before and after a call",
            where=self._where,
            fix="make them inputs and outputs of the network, or call it once before you save it",
        )

    def _evaluated(self, shapes: Mapping[str, tuple[int, ...]], states: Mapping[str, Any]) -> Evaluation:
        """Return a call of the network; inputs used as indices are integers."""
        while True:
            try:
                made = Evaluation(self._archive, self._code, states)
                made.call(self._root, self._constants, self._inputs, shapes, self._values)
                return made
            except WrongType as found:
                entry = next(each for each in self._inputs if each.name == str(found))
                entry.dtype, entry.is_stated = int(INT64), True


def _agree(first: Evaluation, later: Evaluation) -> bool:
    """Return whether a first call agrees with a later one for random inputs.

    Results and states at the end are compared.
    """
    try:
        results, references = _results(first, later.ends), _results(later, later.ends)
    except XdlcError:
        return False
    return results.keys() == references.keys() and all(
        results[name].shape == references[name].shape
        and np.allclose(results[name], references[name], _RELATIVE, _ABSOLUTE)
        for name in results
    )


def _results(call: Evaluation, ends: Mapping[str, Any]) -> dict[str, Any]:
    """Return outputs and final attributes of a call in its first state, random inputs."""
    from xdlc.runtime.cpu import CpuSession  # loads onnxruntime

    program = call.program
    kept = {path: call.ends[path].name for path in ends if isinstance(call.ends.get(path), Tensor)}
    graph = replace(program.graph, outputs=[*program.graph.outputs, *kept.values()])
    names = [*program.outputs, *(f"{path}_next" for path in kept)]
    frozen: Program = replace(program, graph=graph, outputs=names, written={}, notices=[])
    made, _ = source_graph(frozen, Bindings(), frozen=True)
    diagnostics, source = Diagnostics(), Source("pytorch", program.path, unit="call")
    imported = import_model(SourceModel(source, made, aten, Options()), "", diagnostics)
    model = finish(imported, diagnostics, notify=lambda _: None)
    random = np.random.default_rng(0)
    feeds = {each.name: random.normal(size=each.shape).astype(each.dtype.numpy) for each in model.main.inputs}
    return dict(CpuSession(model, threads=1).run(feeds))
