"""Interpreter of TorchScript's code: computes numbers and objects, records ops.

The code is a subset of Python (torch/csrc/jit/serialization/python_print.cpp); it is parsed and never run.

Loops run, and branches are taken, as far as their conditions are known; a branch that depends on data becomes
a call of ``higher_order.cond``.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xdlc.converter.pytorch.archive import Archive
from xdlc.converter.pytorch.script import primitives
from xdlc.converter.pytorch.script.branches import branch, export_anew
from xdlc.converter.pytorch.script.operators import applied
from xdlc.converter.pytorch.script.recorder import Recorder
from xdlc.converter.pytorch.script.values import Named, Object, Tensor
from xdlc.errors import ModelError, UnsupportedOp, XdlcError

_MOST_CODE = 1 << 20
_MOST_MARKS = 1 << 18
"""Most commas, parentheses and points, in proportion to which a parsed text takes memory."""


class Code:
    """The code of an archive.

    Attributes:
        path: The file, for errors.
        version: Version of the file format, which is that of the operators.
    """

    def __init__(self, archive: Archive) -> None:
        self.path = str(archive.path)
        self._archive = archive
        self._left = _MOST_CODE
        self._marks = _MOST_MARKS
        self._files: dict[str, dict[str, ast.ClassDef | ast.FunctionDef]] = {}
        text = archive.read("version")[:16] if "version" in archive else b"1"
        self.version = int(text) if text.strip().isdigit() else 0

    def find(self, name: str) -> ast.ClassDef | ast.FunctionDef | None:
        """Return a class or function by its qualified name.

        For example ``__torch__.torch.nn.modules.linear.Linear``.
        """
        module, _, own = name.rpartition(".")
        if module not in self._files:
            self._files[module] = self._parsed(f"code/{module.replace('.', '/')}.py")
        return self._files[module].get(own)

    def method(self, kind: str, name: str) -> ast.FunctionDef | None:
        """Return a method of a class."""
        found = [each for each in self._body(kind) if isinstance(each, ast.FunctionDef) and each.name == name]
        return found[0] if found else None

    def fields(self, kind: str) -> dict[str, ast.expr | None]:
        """Return the attributes that a class declares, with their constant values."""
        found = [each for each in self._body(kind) if isinstance(each, ast.AnnAssign)]
        return {each.target.id: each.value for each in found if isinstance(each.target, ast.Name)}

    def _body(self, kind: str) -> Sequence[ast.stmt]:
        held = self.find(kind)
        return held.body if isinstance(held, ast.ClassDef) else ()

    def _parsed(self, record: str) -> dict[str, ast.ClassDef | ast.FunctionDef]:
        """Return the classes and functions of a file."""
        if record not in self._archive:
            return {}
        text = self._archive.read(record)
        self._left -= len(text)
        self._marks -= sum(map(text.count, (b",", b"(", b".")))
        where, fix = f"{self.path}: {record}", "save the model again, or export it with torch.export"
        if min(self._left, self._marks) < 0:
            raise ModelError(
                f"the file has too much code for a network: {len(text)} bytes", where=where, fix=fix
            )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                body = ast.parse(text).body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            problem = f"the file has invalid TorchScript: {error}"[:200]
            raise ModelError(problem, where=where, fix=fix) from error
        return {each.name: each for each in body if isinstance(each, ast.ClassDef | ast.FunctionDef)}


_MOST_STEPS = 1 << 20
_MOST_DEPTH = 60
_ROOTS = ("torch", "ops", "CONSTANTS", "__torch__")
_NEXT = object()
_NUMBERS = {"inf": float("inf"), "nan": float("nan")}
_KINDS: dict[str, type] = {each.__name__: each for each in (Tensor, int, float, bool, str, list, tuple)}
_KINDS["NoneType"] = type(None)


_AT_ONCE = frozenset(["__getitem__", "_set_item", "append", "len"])
"""Operators that do not go through a list."""


class Machine:
    """Evaluator of the code of an archive.

    Attributes:
        constants: Values that the code names ``CONSTANTS.c0``.
        changed: Attributes that are set, by object and name: the object, and what they were at first.
    """

    def __init__(self, code: Code, recorder: Recorder) -> None:
        self.recorder = recorder
        self.constants: Sequence[Any] = ()
        self.changed: dict[tuple[int, str], tuple[Object, Any]] = {}
        self._code = code
        self._steps = 0
        self._depth = 0

    def method(
        self, owner: Object, name: str, arguments: Sequence[Any], named: Mapping[str, Any] | None = None
    ) -> Any:
        """Return the result of a method of an object."""
        function = self._code.method(owner.kind, name)
        if function is None:
            raise UnsupportedOp(
                f"{owner.kind} has no method {name}", fix="export the model with torch.export"
            )
        around, self.recorder.module = self.recorder.module, owner.path or self.recorder.module
        result = self._called(function, [owner, *arguments], named or {})
        self.recorder.module = around
        return result

    def _called(self, function: ast.FunctionDef, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Return the result of a function."""
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise UnsupportedOp(
                f"calls nest more than {_MOST_DEPTH} levels deep", fix="export the model with torch.export"
            )
        names = [argument.arg for argument in function.args.args]
        variables = dict(zip(names, arguments, strict=False)) | dict(named)
        defaults = function.args.defaults
        for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
            if name not in variables:
                variables[name] = self.value(default, {})
        if len(arguments) > len(names) or set(variables) != set(names):
            raise ValueError(f"{function.name} is called with the wrong arguments")
        try:
            result = self._run(function.body, variables)
        except XdlcError as problem:
            if not problem.where:
                of = f", module {self.recorder.module!r}" if self.recorder.module else ""
                problem.where = f"{self._code.path}: function {function.name}{of}"
            raise
        self._depth -= 1
        return None if result is _NEXT else result

    def _run(self, body: Sequence[ast.stmt], variables: dict[str, Any]) -> Any:
        """Run statements; return their result, or a mark if they do not return."""
        for statement in body:
            self._count()
            result = self._statement(statement, variables)
            if result is not _NEXT:
                return result
        return _NEXT

    def returns(self, body: Sequence[ast.stmt], held: dict[str, Any]) -> bool:
        """Run statements; return whether they return."""
        return self._run(body, held) is not _NEXT

    def _count(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise UnsupportedOp(
                f"the script runs more than {_MOST_STEPS} steps", fix="export the model with torch.export"
            )

    def _statement(self, statement: ast.stmt, variables: dict[str, Any]) -> Any:
        if isinstance(statement, ast.Return):
            return None if statement.value is None else self.value(statement.value, variables)
        if isinstance(statement, ast.Assign):
            value = self.value(statement.value, variables)
            for target in statement.targets:
                self._assign(target, value, variables)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            self._assign(statement.target, self.value(statement.value, variables), variables)
        elif isinstance(statement, ast.Expr):
            self.value(statement.value, variables)
        elif isinstance(statement, ast.If):
            test = self.value(statement.test, variables)
            if not isinstance(test, Tensor):
                return self._run(statement.body if test else statement.orelse, variables)
            branch(self, test, (statement.body, statement.orelse), variables)
        elif isinstance(statement, ast.For | ast.While):
            return self._loop(statement, variables)
        elif isinstance(statement, ast.With):
            return self._run(statement.body, variables)
        elif not isinstance(statement, ast.AnnAssign | ast.Pass | ast.Assert):
            raise _unknown(type(statement).__name__)
        return _NEXT

    def _assign(self, target: ast.expr, value: Any, variables: dict[str, Any]) -> None:
        """Set a variable, an attribute, or several."""
        if isinstance(target, ast.Name):
            variables[target.id] = value
        elif isinstance(target, ast.Attribute):
            self._set(self.value(target.value, variables), target.attr, value)
        elif isinstance(target, ast.Tuple):
            if not isinstance(value, tuple | list):
                raise ValueError("the script unpacks a value that is not a tuple")
            for element, item in zip(target.elts, value, strict=True):
                self._assign(element, item, variables)
        else:
            raise _unknown(target)

    def _set(self, owner: Any, name: str, value: Any) -> None:
        if not isinstance(owner, Object):
            raise ValueError(f"the script sets attribute {name} of a value that is not an object")
        if self.recorder.branches:
            path = f"{owner.path}.{name}".lstrip(".")
            raise UnsupportedOp(
                f"attribute {path!r} is set in a branch that depends on data", fix=export_anew()
            )
        self.changed.setdefault((id(owner), name), (owner, owner.fields.get(name)))
        owner.fields[name] = value

    def _loop(self, loop: ast.For | ast.While, variables: dict[str, Any]) -> Any:
        for index in self._runs(loop, variables):
            self._count()
            if isinstance(loop, ast.For):
                self._assign(loop.target, index, variables)
            result = self._run(loop.body, variables)
            if result is not _NEXT:
                return result
        return _NEXT

    def _runs(self, loop: ast.For | ast.While, variables: dict[str, Any]) -> Iterator[int]:
        """Iterate over the runs of a loop."""
        if isinstance(loop, ast.For):
            if not (isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter.func) == "range"):
                raise _unknown(loop.iter)
            yield from range(_known(self.value(loop.iter.args[0], variables)))
        else:
            while _known(self.value(loop.test, variables)):
                yield 0

    def value(self, node: ast.expr, variables: Mapping[str, Any]) -> Any:
        """Return the value of an expression."""
        self._count()
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return variables[node.id] if node.id in variables else _NUMBERS[node.id]
        if isinstance(node, ast.List | ast.Tuple):
            items = [self.value(item, variables) for item in node.elts]
            return items if isinstance(node, ast.List) else tuple(items)
        if isinstance(node, ast.Dict):
            keys = [self.value(item, variables) for item in node.keys if item is not None]
            return dict(zip(keys, [self.value(item, variables) for item in node.values], strict=True))
        if isinstance(node, ast.Call):
            return self._call(node, variables)
        if isinstance(node, ast.Attribute):
            path = _path(node)
            if path.partition(".")[0] in _ROOTS and path.partition(".")[0] not in variables:
                return self._named(path)
            return self._attribute(self.value(node.value, variables), node.attr)
        if isinstance(node, ast.Subscript):
            return self._operator(
                "__getitem__", [self.value(node.value, variables), self.value(node.slice, variables)]
            )
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self._operator("neg", [self.value(node.operand, variables)])
        if isinstance(node, ast.IfExp):
            test = self.value(node.test, variables)
            if not isinstance(test, Tensor):
                return self.value(node.body if test else node.orelse, variables)
        raise _unknown(node)

    def _named(self, path: str) -> Any:
        """Return the value of a qualified name."""
        root, _, name = path.partition(".")
        if root == "CONSTANTS":
            return self.constants[int(name[1:])]
        kind, _, member = path.rpartition(".")
        value = self._code.fields(kind).get(member) if root == "__torch__" else None
        return Named(path) if value is None else self.value(value, {})  # a member of an enumeration

    def _attribute(self, owner: Any, name: str) -> Any:
        if not isinstance(owner, Object):
            raise ValueError(f"the script reads attribute {name} of a value that is not an object")
        if name not in owner.fields:
            declared = self._code.fields(owner.kind).get(name)
            if declared is None:
                raise ValueError(f"{owner.kind} has no attribute {name}")
            owner.fields[name] = self.value(declared, {})
        return owner.fields[name]

    def _call(self, node: ast.Call, variables: Mapping[str, Any]) -> Any:
        function = node.func
        if isinstance(function, ast.Name) and function.id not in variables:
            return self._builtin(function.id, node.args, variables)
        arguments = [self.value(item, variables) for item in node.args]
        named = {item.arg: self.value(item.value, variables) for item in node.keywords if item.arg}
        if isinstance(function, ast.Attribute) and _path(function).partition(".")[0] not in _ROOTS:
            owner = self.value(function.value, variables)
            if isinstance(owner, Object):
                return self.method(owner, function.attr, arguments, named)
            raise _unknown(function)
        path = self.value(function, variables)
        if not isinstance(path, Named):
            raise ValueError("the script calls a value that is not a function")
        if path.startswith("__torch__."):
            return self._function(path, arguments, named)
        space, _, name = path.removeprefix("ops.").partition(".")
        return self._operator(name, arguments, named, "aten" if space == "torch" else space)

    def _function(self, path: str, arguments: list[Any], named: Mapping[str, Any]) -> Any:
        """Call a function of the code, or instantiate a class."""
        if path.endswith(".__new__"):
            return Object(str(arguments[0]))
        definition = self._code.find(path)
        if isinstance(definition, ast.FunctionDef):
            return self._called(definition, arguments, named)
        if isinstance(definition, ast.ClassDef) and self._code.method(path, "__init__") is None:
            return tuple(arguments)  # a NamedTuple
        raise UnsupportedOp(f"the file has no code for {path}", fix="save the model again")

    def _operator(
        self, name: str, arguments: list[Any], named: Mapping[str, Any] | None = None, space: str = "aten"
    ) -> Any:
        if name not in _AT_ONCE:
            self._steps += (
                sum(len(item) for item in arguments if isinstance(item, list | tuple | dict | str)) >> 1
            )
        self._count()
        return applied(self.recorder, space, name, arguments, named or {}, self._code.version)

    def _builtin(self, name: str, nodes: Sequence[ast.expr], variables: Mapping[str, Any]) -> Any:
        """Call a built-in function; types among its arguments are not evaluated."""
        if name in ("annotate", "unchecked_cast"):
            value = self.value(nodes[1], variables)
            is_number = isinstance(nodes[0], ast.Name) and nodes[0].id == "number"
            return self._operator("ScalarImplicit", [value]) if is_number else value
        if name == "uninitialized":
            return None
        if name == "isinstance":
            return self._is_instance(self.value(nodes[0], variables), nodes[1])
        arguments = [self.value(item, variables) for item in nodes]
        if name == "getattr":
            return self._attribute(*arguments)
        if name in ("int", "float", "bool"):
            return self._operator(name.capitalize(), arguments)
        if name == "range" or not primitives.is_known(name):
            raise _unknown(f"{name}()")
        return self._operator(name, arguments)

    def _is_instance(self, value: Any, kinds: ast.expr) -> bool:
        for name in map(ast.unparse, kinds.elts if isinstance(kinds, ast.Tuple | ast.List) else [kinds]):
            kind = _KINDS.get(name.partition("[")[0].removeprefix("typing.").replace("List", "list"))
            if kind is None:
                raise _unknown(f"isinstance(..., {name})")
            if isinstance(value, kind) and not (name == "int" and isinstance(value, bool)):
                return True
        return False


def _known(value: Any) -> Any:
    if isinstance(value, Tensor):
        raise UnsupportedOp("the number of iterations of a loop depends on data", fix=export_anew())
    return value


def _unknown(what: ast.expr | str) -> UnsupportedOp:
    text = what if isinstance(what, str) else ast.unparse(what)
    return UnsupportedOp(
        f"xdlc does not support {text[:80]} in TorchScript", fix="export the model with torch.export"
    )


def _path(node: ast.expr) -> str:
    """Return a chain of names as text; "" for any other expression."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
