"""Programs of torch.export from ``.pt2`` archives.

The schema is torch/_export/serde/schema.py, major version 8.

Nothing of a file is executed: the program is JSON, weights are raw records, and sample inputs, which are
pickled, are not read.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from xdlc.converter.pytorch.archive import AGAIN, Archive
from xdlc.converter.pytorch.calls import Call, CallGraph, Meta, Ref, ScalarType, SymbolRef, with_defaults
from xdlc.converter.pytorch.symbols import symbol_name
from xdlc.converter.pytorch.tensors import EXPORTED, Parameter, Parameters
from xdlc.errors import ModelError, UnsupportedOp, XdlcError

_MAJOR = 8
_OLD = "serialized_exported_program.json"
"""The program in archives of torch 2.7 and older."""
_MOST_EXPRESSIONS = 1 << 19
"""Most characters of all expressions of dimensions, each counted once."""
_MOST_CALLS, _GRAPH = 24_000, 16
"""Most calls of a program, and the number of calls that a graph counts as."""
_MOST_DEPTH = 8
_MOST_CONTAINERS = 64
_LONGEST = 128


@dataclass(slots=True)
class Program:
    """A program of PyTorch.

    Attributes:
        inputs: Names of the inputs that a user sets, by their value's name.
        numbers: Arguments of the network that are numbers: expressions by name.
        parameters: Stored tensors by their value's name.
        outputs: Names of outputs, one for each of the graph's; empty for those that are not the user's.
        written: Names of values after the run by the inputs of the graph that they are the next values of.
        ranges: Least and largest value of each symbol, None for no limit.
        examples: Value that each symbol had in the example with which the program was exported.
        fixed: Names of inputs whose values are part of the program.
        notices: What the user should know of the reading.
    """

    path: str
    graph: CallGraph
    inputs: dict[str, str] = field(default_factory=dict)
    numbers: dict[str, int | str] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    written: dict[str, str] = field(default_factory=dict)
    ranges: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    examples: dict[str, int] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    notices: list[str] = field(default_factory=list)


def read_program(path: str | os.PathLike[str]) -> Program:
    """Return the program of a ``.pt2`` file.

    Raises:
        ModelError: If the file is damaged or holds no program.
    """
    archive = Archive(path)
    model, record = None, _OLD
    if not archive.names(_OLD):
        models = archive.names("models/", ".json")
        if len(models) != 1:
            raise ModelError(
                f"the file holds {len(models)} programs instead of 1",
                where=str(path),
                fix="save one program per file",
            )
        record = models[0]
        model = record.removeprefix("models/").removesuffix(".json")
    with understood(str(path)):
        document = archive.parsed(record)
        version = document["schema_version"]["major"]
        if version != _MAJOR:
            raise ModelError(
                f"the program has schema version {version}; xdlc reads version {_MAJOR}",
                where=str(path),
                fix="export the network again, with torch 2.6 or newer",
            )
        return _Reader(str(path), document, Parameters(archive, model)).program()


@contextmanager
def understood(where: str) -> Iterator[None]:
    """Raise a ModelError for an unexpected program; add the path to other errors.

    Raises:
        ModelError: In its place.
    """
    try:
        yield
    except XdlcError as error:
        if where not in (error.where or ""):
            error.where = f"{where}: {error.where}" if error.where else where
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        problem = f"the program is damaged: {type(error).__name__}: {error}"
        raise ModelError(problem[:200], where=where, fix=AGAIN) from error


_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
_PLAIN = {"as_int": int, "as_bool": bool, "as_string": str, "as_operator": str}
"""Type of arguments by kind."""
_NAMED = ("as_tensor", "as_optional_tensor", "as_nested_tensor", "as_sym_int", "as_sym_bool", "as_sym_float")
"""Kinds of arguments that are names of values, or values of another kind."""
_HELD = ("parameter", "buffer", "tensor_constant")
"""Kinds of inputs that are stored tensors."""


class _Reader:
    """Reader of one program."""

    def __init__(self, where: str, document: Mapping[str, Any], parameters: Parameters) -> None:
        self._document = document
        self._parameters = parameters
        self._where = where
        self._expressions: set[str] = set()
        self._characters = 0
        self._calls = 0
        self._depth = 0
        self._examples: dict[str, int] = {}

    def program(self) -> Program:
        """Return the program."""
        module = self._document["graph_module"]
        graph = self.graph(module["graph"])
        program = Program(self._where, graph, examples=self._examples)
        for symbol, limits in self._document.get("range_constraints", {}).items():
            program.ranges[symbol] = (limits.get("min_val"), limits.get("max_val"))
        for spec in module["signature"]["input_specs"]:
            ((kind, entry),) = spec.items()
            self._input(program, kind, entry)
        self._outputs(program, module)
        return program

    # ------------------------------------------------------------------ inputs and outputs

    def _input(self, program: Program, kind: str, entry: Mapping[str, Any]) -> None:
        """Add an input of the graph."""
        if kind == "user_input":
            ((form, arg),) = entry["arg"].items()
            if form == "as_tensor":
                program.inputs[arg["name"]] = arg["name"]
            elif form in ("as_sym_int", "as_sym_float", "as_sym_bool") and "as_name" in arg:
                program.numbers[arg["as_name"]] = program.graph.symbols.get(arg["as_name"], 0)
            elif form in ("as_custom_obj", "as_tensors"):
                problem = f"the program has an input of kind {form}, which a DLC cannot hold"
                raise UnsupportedOp(problem, where=self._where, fix="pass tensors only")
            else:
                program.notices.append(
                    f"the program fixes an argument of the network to {self.argument(entry['arg'])!r}"
                )
        elif kind == "constant_input":
            value = self.argument(entry["value"])
            program.notices.append(
                f"the program fixes argument {entry['name']!r} of the network to {value!r}"
            )
        elif kind in _HELD:
            program.parameters[entry["arg"]["name"]] = self._parameters.find(entry[f"{kind}_name"])
        elif kind != "token":
            problem = f"the program has an input of kind {kind}, which a DLC cannot hold"
            raise UnsupportedOp(problem, where=self._where, fix="export the network without this input")

    def _outputs(self, program: Program, module: Mapping[str, Any]) -> None:
        """Set the names of the outputs, and the outputs that update inputs."""
        by_name = {parameter.name: value for value, parameter in program.parameters.items()}
        kinds = [item for spec in module["signature"]["output_specs"] for item in spec.items()]
        names = iter(_output_names(module, sum(kind == "user_output" for kind, _ in kinds)))
        for (kind, entry), output in zip(kinds, program.graph.outputs, strict=True):
            program.outputs.append("")
            if kind == "user_output":
                program.outputs[-1] = next(names)
            elif kind.endswith("_mutation"):
                name = entry[f"{kind.removesuffix('_mutation')}_name"]
                program.written[by_name.get(name, name)] = output
            elif kind != "token":
                problem = f"the program has an output of kind {kind}, which only training programs have"
                raise UnsupportedOp(problem, where=self._where, fix="export the network for inference")

    # ------------------------------------------------------------------ graphs

    def graph(self, document: Mapping[str, Any]) -> CallGraph:
        """Return a graph."""
        self._calls += len(document["nodes"]) + _GRAPH
        self._depth += 1
        if self._calls > _MOST_CALLS:
            raise UnsupportedOp(
                f"the program has more than {_MOST_CALLS} calls", fix="convert a part of the network"
            )
        if self._depth > _MOST_DEPTH:
            problem = f"the graphs of the program nest more than {_MOST_DEPTH} levels deep"
            raise UnsupportedOp(problem, fix="move inner branches and loops out of outer branches")
        values = {name: self._meta(meta) for name, meta in document["tensor_values"].items()}
        symbols = {
            name: number
            for kind in ("sym_int_values", "sym_float_values", "sym_bool_values")
            for name, value in (document.get(kind) or {}).items()
            if (number := self._symbol(value)) is not None
        }
        inputs = [next(iter(_names(each)), "") for each in document["inputs"]]
        outputs = [self.argument(each) for each in document["outputs"]]
        calls = [self._call(each) for each in document["nodes"]]
        made = Counter(name for call in calls for name in call.outputs if name)
        made.update(name for name in inputs if name)
        self._depth -= 1
        twice = next((name for name, times in made.items() if times > 1), None)
        if twice is not None:
            raise ValueError(f"two calls write the value {twice!r}")
        return CallGraph(inputs, outputs, calls, values, symbols)

    def _meta(self, meta: Mapping[str, Any]) -> Meta:
        sizes, strides = (tuple(self._symbol(each) for each in meta[key]) for key in ("sizes", "strides"))
        offset = self._symbol(meta.get("storage_offset", {"as_int": 0}))
        return Meta(ScalarType(EXPORTED.get(meta["dtype"], -1)), sizes, strides, offset)

    def _symbol(self, value: Mapping[str, Any]) -> Any:
        """Return a number or an expression; record a symbol's value in the example."""
        ((kind, held),) = value.items()
        if kind != "as_expr":
            return held
        text, hint = held["expr_str"], held.get("hint")
        if text not in self._expressions:
            self._expressions.add(text)
            self._characters += len(text)
            if self._characters > _MOST_EXPRESSIONS:
                raise ValueError("the shape expressions of the program are too long")
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
            arguments |= with_defaults(target[5:], arguments)
        outputs = [name for each in node["outputs"] for name in _names(each)]
        metadata = node.get("metadata") or {}
        modules = metadata.get("nn_module_stack", "").split(";")[-1].split(",")
        module = modules[1].partition("@")[0] if len(modules) > 2 else ""  # norm@1: the second call of norm
        return Call(target, arguments, outputs, module, _line(metadata.get("stack_trace", "")))

    def argument(self, value: Mapping[str, Any]) -> Any:
        """Return an argument as a Python value."""
        ((kind, held),) = value.items()
        return self._of_kind(kind, held)

    def _of_kind(self, kind: str, value: Any) -> Any:
        if isinstance(value, list):
            single = kind.removesuffix("s").removesuffix("_list")
            return [self._of_kind(single, item) for item in value]
        if kind in _PLAIN and type(value) is not _PLAIN[kind]:
            raise TypeError(f"{str(value)[:40]!r} is not an argument of kind {kind}")
        if kind in _PLAIN:
            return value
        if kind in _NAMED:
            if "as_name" in value:
                return SymbolRef(value["as_name"])
            return Ref(value["name"]) if "name" in value else self.argument(value)
        if kind == "as_scalar_type":
            return ScalarType(EXPORTED.get(value, -1))
        if kind == "as_float":
            return float(value)
        if kind == "as_complex":
            return complex(value["real"], value["imag"])
        if kind == "as_graph":
            return self.graph(value["graph"])
        if kind in ("as_none", "as_memory_format", "as_layout", "as_device"):
            return None
        if kind == "as_custom_obj":
            problem = "the call passes a Python object, like a random number generator"
            raise UnsupportedOp(problem, where=self._where, fix="export the network without this object")
        raise ValueError(f"an argument has the unknown kind {kind}")


def _names(value: Mapping[str, Any]) -> list[str]:
    """Return the names of an input or result of a call; "" for unnamed ones."""
    ((_, held),) = value.items()
    many = held if isinstance(held, list) else [held]
    return [
        str(each.get("name", each.get("as_name", ""))) if isinstance(each, Mapping) else "" for each in many
    ]


def _line(trace: str) -> str:
    """Return file and line of the innermost call of a stack trace outside torch."""
    frames = _FRAME.findall(trace)
    own = [frame for frame in frames if "/torch/nn/" not in frame[0]] or frames
    return ":".join(own[-1]) if own else ""


def _output_names(document: Mapping[str, Any], count: int) -> list[str]:
    """Return a name for each output: dict keys, class fields, else ``output_0``, ..."""
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
    """Iterate over the key paths of leaves of nested containers.

    Keys run from the outermost on, as in torch/utils/_pytree.py.
    """
    if len(path) > _MOST_CONTAINERS:
        raise ValueError("containers nest too deeply")
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
    """Return a path as a name; "" if it has only positions."""
    if all(isinstance(key, int) for key in path):
        return ""
    name = re.sub(r"\W", "_", "_".join(map(str, path)))[:_LONGEST]
    return f"output_{name}" if name[0].isdigit() else name
