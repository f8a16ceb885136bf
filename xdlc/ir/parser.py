"""Parser of the text form that ``xdlc.ir.text`` prints."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any, NamedTuple, NoReturn

from xdlc.errors import ModelError, nearest_names
from xdlc.ir.data import ArrayData, Elided, TensorData
from xdlc.ir.dtype import BY_NAME, UINT8, DType
from xdlc.ir.encoding import Encoding
from xdlc.ir.graph import NATIVE_PACKAGE, Graph, Op, Origin
from xdlc.ir.literals import ENCODING_NAMES, data_shape, numbers_data, scalar_value
from xdlc.ir.model import Model, malformed
from xdlc.ir.tensor import Param, Role, Scalar, Tensor
from xdlc.json_fields import json_value

_TOKEN = re.compile(r'\s*(?:(->|[%(){}\[\],=@])|("(?:[^"\\]|\\.)*")|((?:[A-Za-z0-9_.:/+]+|-(?!>))+))')


def parse(text: str) -> Model:
    """Return the model from its text form; elided data becomes ``Elided``.

    Raises:
        ModelError: With the line that is wrong.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        line = f"line {text.count(chr(10), 0, error.start) + 1}"
        raise ModelError(f"the line has half of a surrogate pair: {error}", where=line) from error
    return _Parser(text).model()


class _PendingOp(NamedTuple):
    line: int
    name: str
    type: str
    package: str
    inputs: list[str | None]
    outputs: list[str]
    params: dict[str, Param]
    origin: Origin


class _Line:
    """The tokens of a line; quoted words keep their quotes until they are read."""

    def __init__(self, number: int, text: str) -> None:
        self.number = number
        self.text = text
        self.tokens: list[str] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position, end)
            if match is None:
                self.fail(f"unexpected character {text[position:].lstrip()[:1]!r}")
            self.tokens.append(match.group(match.lastindex or 0))
            position = match.end()
        self.index = 0

    def fail(self, problem: str, fix: str | None = None) -> NoReturn:
        raise ModelError(problem, where=f"line {self.number}", fix=fix)

    @property
    def next(self) -> str:
        """The next token; "" at the end of the line."""
        return self.tokens[self.index] if self.index < len(self.tokens) else ""

    def take(self, token: str) -> None:
        if self.next != token:
            self.fail(f"the line needs {token!r} here, but has {self.next or 'the end of the line'!r}")
        self.index += 1

    def skip(self, token: str) -> bool:
        found = self.next == token
        self.index += found
        return found

    def word(self) -> str:
        """Read a name, bare or quoted."""
        token = self.next
        if token.startswith('"'):
            self.index += 1
            try:
                word = str(json.loads(token, strict=False))
                word.encode("utf-8")
                return word
            except ValueError as error:
                self.fail(f"{token} is not a valid string: {error}")
        return self.bare()

    def bare(self) -> str:
        token = self.next
        if not token or token == "->" or token in "%(){}[],=@" or token.startswith('"'):
            self.fail(f"the line needs a word here, but has {token or 'the end of the line'!r}")
        self.index += 1
        return token

    def convert(self, function: Callable[[str], Any]) -> Any:
        token = self.bare()
        try:
            return function(token)
        except (ValueError, OverflowError) as error:
            self.fail(f"{token[:80]!r} is not a valid value: {error}")

    def items(self, open_token: str, close_token: str, take: Callable[[], Any]) -> list[Any]:
        """Read ``open item, item, ... close``."""
        self.take(open_token)
        elements: list[Any] = []
        if self.skip(close_token):
            return elements
        while True:
            elements.append(take())
            if self.skip(close_token):
                return elements
            self.take(",")

    def integers(self) -> tuple[int, ...]:
        return tuple(self.items("[", "]", lambda: self.convert(int)))

    def reference(self) -> str:
        self.take("%")
        return self.word()

    def end(self) -> None:
        if self.next:
            self.fail(f"unexpected {self.next!r}")


class _Parser:
    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._model = Model()
        self._graph: Graph | None = None
        self._pending: list[_PendingOp] = []
        self._returned: list[tuple[int, str]] = []
        self._roles: set[Tensor] = set()

    def model(self) -> Model:
        for number, text in enumerate(self._lines, 1):
            stripped = text.strip()
            if not stripped or stripped.startswith("#"):
                continue
            if stripped.startswith("metadata ") and self._graph is None:
                self._metadata(number, stripped.removeprefix("metadata "))
                continue
            line = _Line(number, text)
            if self._graph is None:
                self._top(line)
            else:
                self._statement(line, self._graph)
            line.end()
        if self._graph is not None:
            raise ModelError(
                f"graph {self._graph.name!r} is not closed", where=f"line {len(self._lines)}", fix="add '}'"
            )
        return self._model

    def _metadata(self, number: int, text: str) -> None:
        try:
            metadata = json_value(text)
        except ValueError as error:
            raise ModelError(f"the metadata are not valid JSON: {error}", where=f"line {number}") from error
        if not isinstance(metadata, dict):
            raise ModelError("the metadata are not a JSON object", where=f"line {number}")
        key = malformed(metadata)
        if key is not None:
            raise ModelError(f"the metadata have a malformed {key!r}", where=f"line {number}")
        self._model.metadata = metadata

    def _top(self, line: _Line) -> None:
        keyword = line.bare()
        if keyword == "graph":
            self._graph = Graph(line.word())
            line.take("{")
        elif keyword == "record":
            name = line.word()
            if name in self._model.records:
                line.fail(f"two records are named {name!r}")
            size = line.convert(int)
            self._model.records[name] = self._bytes(line, UINT8, (size,))
        else:
            line.fail(f"the line must begin with metadata, graph or record, not with {keyword!r}")

    def _statement(self, line: _Line, graph: Graph) -> None:
        is_op = len(line.tokens) > 1 and line.tokens[1] == "="
        if is_op:
            self._pending.append(self._op(line, graph))
        elif line.skip("}"):
            self._close(graph)
        elif line.skip("return"):
            self._returned.append((line.number, line.reference()))
            while line.skip(","):
                self._returned.append((line.number, line.reference()))
        else:
            keyword = line.bare()
            roles = {"input": Role.INPUT, "static": Role.STATIC, "tensor": Role.NATIVE}
            if keyword not in roles:
                line.fail(
                    f"the line must begin with an op, input, static, tensor or return, not with {keyword!r}"
                )
            tensor = self._declare(line, graph, line.reference(), roles[keyword])
            if keyword == "input":
                graph.inputs.append(tensor)

    def _close(self, graph: Graph) -> None:
        for number, name in self._returned:
            tensor = graph.tensors.get(name)
            if tensor is None:
                raise _unknown_tensor(number, name, graph)
            if tensor not in self._roles:
                tensor.role = Role.OUTPUT
            graph.outputs.append(tensor)
        for op in self._pending:
            try:
                graph.append(
                    Op(
                        op.type,
                        [None if name is None else _tensor(op.line, name, graph) for name in op.inputs],
                        [_tensor(op.line, name, graph) for name in op.outputs],
                        op.params,
                        name=op.name,
                        package=op.package,
                        origin=op.origin,
                    )
                )
            except ModelError as error:
                if error.where == f"line {op.line}":
                    raise
                raise ModelError(error.problem, where=f"line {op.line}", fix=error.fix) from error
        try:
            self._model.add_graph(graph)
        except ModelError as error:
            raise ModelError(error.problem, where=f"graph {graph.name!r}") from error
        self._graph = None
        self._pending, self._returned, self._roles = [], [], set()

    def _op(self, line: _Line, graph: Graph) -> _PendingOp:
        name = line.word()
        line.take("=")
        type_name = line.word()
        package = line.word() if line.skip("@") else NATIVE_PACKAGE
        inputs = line.items("(", ")", lambda: None if line.skip("_") else line.reference())
        params: dict[str, Param] = {}
        if line.next == "{":
            for key, param in line.items("{", "}", lambda: self._param(line, name)):
                if key in params:
                    line.fail(f"parameter {key!r} appears twice")
                params[key] = param
        outputs: list[str] = []
        if line.skip("->"):
            outputs.append(self._output(line, graph))
            while line.skip(","):
                outputs.append(self._output(line, graph))
        nodes: list[str] = []
        if line.skip("from"):
            nodes.append(line.word())
            while line.skip(","):
                nodes.append(line.word())
        reason = line.word() if line.skip("because") else None
        return _PendingOp(
            line.number, name, type_name, package, inputs, outputs, params, Origin(tuple(nodes), reason)
        )

    def _output(self, line: _Line, graph: Graph) -> str:
        name = line.reference()
        if line.next in BY_NAME:
            self._declare(line, graph, name, Role.NATIVE)
        return name

    def _param(self, line: _Line, op: str) -> tuple[str, Param]:
        key = line.word()
        line.take("=")
        name = line.reference() if line.next == "%" else f"{op}_{key}"
        dtype = _dtype(line)
        if line.next == "[":
            return key, self._spec(line, name, dtype, Role.STATIC)
        if line.next.startswith('"'):
            if dtype.kind != "string":
                line.fail(f"parameter {key!r} is a text, but its type is {dtype}")
            return key, Scalar(dtype, line.word())
        return key, Scalar(dtype, line.convert(lambda word: scalar_value(dtype, word)))

    def _declare(self, line: _Line, graph: Graph, name: str, role: Role) -> Tensor:
        tensor = self._spec(line, name, _dtype(line), role)
        if name in graph.tensors:
            line.fail(f"two tensors are named {name!r}")
        return graph.add_tensor(tensor)

    def _spec(self, line: _Line, name: str, dtype: DType, role: Role) -> Tensor:
        shape = line.integers()
        if any(dim < 0 for dim in shape):
            line.fail(f"tensor {name!r} has a negative dimension")
        tensor = Tensor(name, shape, dtype, role=role)
        if line.skip("dynamic"):
            line.take("=")
            tensor.dynamic_axes = line.integers()
        if line.skip("role"):
            line.take("=")
            word = line.bare()
            if word.upper() not in Role.__members__:
                line.fail(f"unknown role {word!r}", nearest_names(word, [r.name.lower() for r in Role]))
            tensor.role = Role[word.upper()]
            self._roles.add(tensor)
        if line.next in _ENCODINGS:
            tensor.encoding = _encoding(line)
        if line.skip("="):
            tensor.data = self._data(line, dtype, shape)
        return tensor

    def _data(self, line: _Line, dtype: DType, shape: tuple[int, ...]) -> TensorData:
        if line.next in BY_NAME:
            stored = _dtype(line)
            return self._bytes(line, stored, line.integers())
        shape_of_data = data_shape(dtype, shape)
        if line.next != "[":
            return self._bytes(line, dtype, shape_of_data)
        words = line.items("[", "]", line.bare)
        try:
            return numbers_data(dtype, math.prod(shape), shape_of_data, words)
        except (ValueError, OverflowError) as error:
            line.fail(str(error))

    def _bytes(self, line: _Line, dtype: DType, shape: tuple[int, ...]) -> TensorData:
        kind, _, digits = line.bare().partition(":")
        if dtype.kind in ("string", "undefined") or any(dim < 0 for dim in shape):
            line.fail(f"the text form cannot hold data of type {dtype} and shape {list(shape)}")
        if kind == "sha256":
            return Elided(shape, dtype.numpy, digits)
        if kind != "hex":
            line.fail(f"data must begin with a number, hex: or sha256:, but begin with {kind!r}")
        import numpy

        try:
            content = bytes.fromhex(digits)
        except ValueError as error:
            line.fail(f"the hexadecimal data are not valid: {error}")
        needed = math.prod(shape) * dtype.numpy.itemsize
        if len(content) != needed:
            line.fail(f"a tensor {dtype}{list(shape)} needs {needed} bytes of data, but has {len(content)}")
        return ArrayData(numpy.frombuffer(content, dtype.numpy).reshape(shape))


def _dtype(line: _Line) -> DType:
    word = line.bare()
    if word not in BY_NAME:
        line.fail(f"unknown data type {word!r}", nearest_names(word, BY_NAME) or None)
    return BY_NAME[word]


def _tensor(number: int, name: str, graph: Graph) -> Tensor:
    tensor = graph.tensors.get(name)
    if tensor is None:
        raise _unknown_tensor(number, name, graph)
    return tensor


def _unknown_tensor(number: int, name: str, graph: Graph) -> ModelError:
    near = nearest_names(name, graph.tensors)
    return ModelError(
        f"tensor {name!r} is not declared in graph {graph.name!r}", where=f"line {number}", fix=near or None
    )


_ENCODINGS = {name: cls for cls, name in ENCODING_NAMES.items()}


def _encoding(line: _Line) -> Encoding:
    kind = line.bare()
    make = _ENCODINGS[kind]

    def item() -> tuple[str, Any]:
        key = line.bare()
        line.take("=")
        if key == "scales":
            return key, tuple(line.items("[", "]", lambda: line.convert(float)))
        if key == "scale":
            return key, line.convert(float)
        return key, line.integers() if line.next == "[" else line.convert(int)

    arguments = dict(line.items("(", ")", item))
    needed = {field.name for field in fields(make) if field.default is MISSING} - {"offsets"}
    if not needed <= arguments.keys():
        line.fail(f"the encoding {kind} lacks {', '.join(sorted(needed - arguments.keys()))}")
    if "scales" in arguments:
        arguments.setdefault("offsets", (0,) * len(arguments["scales"]))
    if "wide" in arguments:
        arguments["wide"] = bool(arguments["wide"])
    try:
        return make(**arguments)
    except (TypeError, ValueError, OverflowError) as error:
        line.fail(f"the encoding {kind} is not valid: {error}")
