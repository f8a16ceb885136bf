"""Programs of torch.export, as ``.pt2`` archives hold them (torch/_export/serde/schema.py, major version 8).

Nothing of a file is executed: the program is JSON, weights are raw records, and sample inputs, which are
pickled, are not read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from xdlc import ir
from xdlc.converter.pytorch.archive import AGAIN, Archive
from xdlc.converter.pytorch.calls import Call, CallGraph, Meta, Ref, ScalarType, SymbolRef
from xdlc.converter.pytorch.schemas import REQUIRED, schema
from xdlc.converter.pytorch.symbols import symbol_name
from xdlc.converter.pytorch.tensors import EXPORTED, stored
from xdlc.errors import ModelError, UnsupportedOp, XdlcError

_MAJOR = 8
_MOST_VALUES = 1 << 20


@dataclass(slots=True)
class Parameter:
    """A tensor that a program holds: a parameter, a buffer or a constant.

    Attributes:
        name: Its name in the state_dict.
        data: Its elements, or the error why they cannot be read.
    """

    name: str
    data: ir.TensorData | XdlcError


@dataclass(slots=True)
class Program:
    """A program of PyTorch.

    Attributes:
        path: The file.
        graph: Its graph.
        inputs: Names of the inputs that a user sets, by their value's name.
        constants: Inputs of the graph that never change, or have a first value: numbers and None.
        parameters: Stored tensors by their value's name.
        outputs: Names of outputs, one for each of the graph's; empty for those that are not the user's.
        written: Names of values after the run by the inputs of the graph that they are the next values of.
        ranges: Least and largest value of each symbol, None for no limit.
        examples: Value that each symbol had in the example with which the program was exported.
        notices: What the user should know of the reading.
    """

    path: str
    graph: CallGraph
    inputs: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    examples: dict[str, int] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)


def read_program(path: str | os.PathLike[str]) -> Program:
    """Return the program of a ``.pt2`` file.

    Raises:
        ModelError: If the file is damaged or holds no program.
    """
    archive = Archive(path)
    models = archive.names("models/", ".json")
    if len(models) != 1:
        raise ModelError(f"holds {len(models)} programs", where=str(path), fix="save one program")
    with understood(str(path)):
        return _Reader(archive, archive.parsed(models[0])).program()


@contextmanager
def understood(where: str) -> Iterator[None]:
    """Raise what an unexpected program causes as a ModelError.

    Raises:
        ModelError: In its place.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        problem = f"the program is damaged: {type(error).__name__}: {error}"
        raise ModelError(problem[:200], where=where, fix=AGAIN) from error


class _Reader:
    """Reader of one program."""

    def __init__(self, archive: Archive, document: Mapping[str, Any]) -> None:
        self._archive = archive
        self._document = document
        self._where = str(archive.path)
        self._values = 0
        self._examples: dict[str, int] = {}
        version = document["schema_version"]["major"]
        if version != _MAJOR:
            raise ModelError(
                f"has version {version} of the schema of programs; version {_MAJOR} is read",
                where=self._where,
                fix="export it again with torch.export.save of torch 2.5 or newer",
            )

    def program(self) -> Program:
        """Return the program."""
        module = self._document["graph_module"]
        graph = self.graph(module["graph"])
        made = Program(self._where, graph, examples=self._examples)
        for symbol, limits in self._document.get("range_constraints", {}).items():
            made.ranges[symbol] = (limits.get("min_val"), limits.get("max_val"))
        held = self._stored("weights") | self._stored("constants")
        for spec in module["signature"]["input_specs"]:
            self._input(made, spec, held)
        self._outputs(made, module)
        return made

    # ------------------------------------------------------------------ inputs and outputs

    def _input(self, made: Program, spec: Mapping[str, Any], held: Mapping[str, tuple[str, Any]]) -> None:
        """Add an input of the graph."""
        ((kind, entry),) = spec.items()
        if kind == "user_input":
            ((form, arg),) = entry["arg"].items()
            if form == "as_tensor":
                made.inputs[arg["name"]] = arg["name"]
            elif form == "as_none" or not isinstance(arg, Mapping):
                made.notices.append(f"an argument of the network is fixed to {self.argument(entry['arg'])!r}")
            else:
                raise ModelError(f"has an input of kind {form}", where=self._where, fix="pass tensors only")
            return
        if kind == "token":
            return
        names = {
            "parameter": "parameter_name",
            "buffer": "buffer_name",
            "tensor_constant": "tensor_constant_name",
        }
        if kind not in names:
            problem = f"has an input of kind {kind}, which no DLC holds"
            raise UnsupportedOp(problem, where=self._where, fix="export the network without it")
        name = entry[names[kind]]
        made.parameters[entry["arg"]["name"]] = Parameter(name, self._tensor(name, held))

    def _outputs(self, made: Program, module: Mapping[str, Any]) -> None:
        """Set the names of the outputs, and what inputs become."""
        for spec, output in zip(module["signature"]["output_specs"], made.graph.outputs, strict=True):
            ((kind, entry),) = spec.items()
            made.outputs.append("")
            if kind == "user_output":
                made.outputs[-1] = (
                    str(output) if isinstance(output, Ref) else f"output_{len(made.outputs) - 1}"
                )
            elif kind in ("buffer_mutation", "user_input_mutation"):
                key = "buffer_name" if kind == "buffer_mutation" else "user_input_name"
                by_name = {each.name: value for value, each in made.parameters.items()}
                made.written[by_name.get(entry[key], entry[key])] = output
            elif kind != "token":
                problem = f"has an output of kind {kind}: it is a program of training"
                raise UnsupportedOp(problem, where=self._where, fix="export it for inference")

    def _stored(self, kind: str) -> dict[str, tuple[str, Any]]:
        """Return record and configuration of stored tensors by name."""
        found: dict[str, tuple[str, Any]] = {}
        for name in self._archive.names(f"data/{kind}/", "_config.json"):
            for tensor, entry in self._archive.parsed(name)["config"].items():
                found[tensor] = (f"data/{kind}/{entry['path_name']}", entry)
        return found

    def _tensor(self, name: str, held: Mapping[str, tuple[str, Any]]) -> ir.TensorData | XdlcError:
        """Return a stored tensor, or why it cannot be read."""
        where = f"{self._where}: tensor {name!r}"
        if name not in held:
            return ModelError("is not in the file", where=where, fix=AGAIN)
        record, entry = held[name]
        if entry["use_pickle"]:
            return UnsupportedOp(
                "is stored as a Python object, which would have to be executed",
                where=where,
                fix="export a network whose parameters are plain tensors",
            )
        meta = entry["tensor_meta"]
        try:
            sizes, strides = ([self._number(each) for each in meta[key]] for key in ("sizes", "strides"))
            offset = self._number(meta["storage_offset"])
            number = EXPORTED.get(meta["dtype"], -1)
            start, size = self._archive.record(record) if all(sizes) else (0, 0)
            return stored(self._archive.source, start, size, number, sizes, strides, offset, where)
        except XdlcError as error:
            error.where = error.where or where
            return error

    @staticmethod
    def _number(value: Mapping[str, Any]) -> int:
        number = value["as_int"]
        if not isinstance(number, int):
            raise TypeError(f"{number!r} is no integer")
        return number

    # ------------------------------------------------------------------ graphs

    def graph(self, document: Mapping[str, Any]) -> CallGraph:
        """Return a graph."""
        values = {name: self._meta(meta) for name, meta in document["tensor_values"].items()}
        symbols = {
            name: number
            for kind in ("sym_int_values", "sym_float_values", "sym_bool_values")
            for name, value in (document.get(kind) or {}).items()
            if (number := self._symbol(value)) is not None
        }
        inputs = [self._input_name(each) for each in document["inputs"]]
        outputs = [self.argument(each) for each in document["outputs"]]
        return CallGraph(inputs, outputs, [self._call(each) for each in document["nodes"]], values, symbols)

    @staticmethod
    def _input_name(value: Mapping[str, Any]) -> str:
        ((_, arg),) = value.items()
        if isinstance(arg, Mapping):
            return str(arg.get("name", arg.get("as_name", "")))
        return ""

    def _meta(self, meta: Mapping[str, Any]) -> Meta:
        sizes, strides = (tuple(self._symbol(each) for each in meta[key]) for key in ("sizes", "strides"))
        return Meta(ScalarType(EXPORTED.get(meta["dtype"], -1)), sizes, strides)

    def _symbol(self, value: Mapping[str, Any]) -> Any:
        """Return a number that may be an expression; keep what a symbol was in the example."""
        ((kind, held),) = value.items()
        if kind != "as_expr":
            return held
        text, hint = held["expr_str"], held.get("hint")
        name = symbol_name(text) if hint else None
        if name is not None:
            self._examples.setdefault(name, next(iter(hint.values())))
        return text

    def _call(self, node: Mapping[str, Any]) -> Call:
        target = node["target"].removeprefix("torch.ops.").removesuffix(".default")
        arguments = {}
        for index, entry in enumerate(node["inputs"]):
            arguments[entry["name"] or f"arg{index}"] = self.argument(entry["arg"])
        if target.startswith("aten."):
            for each in schema(target[5:]) or ():
                if each.default is not REQUIRED:
                    arguments.setdefault(each.name, each.default)
        outputs = [name for each in node["outputs"] for name in self._output_names(each)]
        metadata = node.get("metadata") or {}
        modules = metadata.get("nn_module_stack", "").split(";")[-1].split(",")
        self._values += len(outputs) + 1
        if self._values > _MOST_VALUES:
            raise ValueError("it has too many values")
        line = metadata.get("stack_trace", "").strip().rpartition("\n")[2].strip()
        return Call(target, arguments, outputs, modules[1] if len(modules) > 2 else "", line)

    @staticmethod
    def _output_names(value: Mapping[str, Any]) -> list[str]:
        ((kind, held),) = value.items()
        if kind == "as_none":
            return [""]
        many = held if isinstance(held, list) else [held]
        return [str(each.get("name", each.get("as_name", ""))) for each in many]

    def argument(self, value: Mapping[str, Any]) -> Any:
        """Return an argument as a Python value.

        Raises:
            ValueError: If it is of a kind that is not known.
        """
        ((kind, held),) = value.items()
        if kind == "as_tensor":
            return Ref(held["name"])
        if kind == "as_tensors":
            return [Ref(each["name"]) for each in held]
        if kind in (
            "as_optional_tensors",
            "as_nested_tensors",
            "as_sym_ints",
            "as_sym_bools",
            "as_sym_floats",
        ):
            return [self._item(each) for each in held]
        if kind == "as_none":
            return None
        if kind == "as_scalar_type":
            return ScalarType(EXPORTED.get(held, -1))
        if kind in ("as_int", "as_bool", "as_string", "as_operator", "as_ints", "as_bools", "as_strings"):
            return held
        if kind == "as_float":
            return float(held)
        if kind == "as_floats":
            return [float(each) for each in held]
        if kind in ("as_sym_int", "as_sym_bool", "as_sym_float"):
            return self._item(held)
        if kind == "as_graph":
            return self.graph(held["graph"])
        if kind in ("as_memory_format", "as_layout", "as_device"):
            return None
        raise ValueError(f"an argument is of the unknown kind {kind}")

    def _item(self, value: Any) -> Any:
        """Return an item of a list of numbers or tensors."""
        if isinstance(value, list):
            return [self._item(each) for each in value]
        if "as_name" in value:
            return SymbolRef(value["as_name"])
        return self.argument(value) if next(iter(value)).startswith("as_") else Ref(value["name"])
