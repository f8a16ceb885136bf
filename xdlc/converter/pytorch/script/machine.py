"""Evaluation of TorchScript's code: numbers and objects are computed, operators on tensors are recorded.

Loops run, and branches are taken, as far as their conditions are known; a branch that depends on data becomes
a call of ``higher_order.cond``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xdlc.converter.pytorch.script import primitives
from xdlc.converter.pytorch.script.branches import FIX, branch
from xdlc.converter.pytorch.script.code import Code
from xdlc.converter.pytorch.script.operators import applied
from xdlc.converter.pytorch.script.recorder import Recorder
from xdlc.converter.pytorch.script.values import Named, Object, Tensor
from xdlc.errors import UnsupportedOp, XdlcError

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
        recorder: Recorder of the operators.
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
        self, held: Object, name: str, given: Sequence[Any], named: Mapping[str, Any] | None = None
    ) -> Any:
        """Return what a method of an object returns."""
        function = self._code.method(held.kind, name)
        if function is None:
            raise UnsupportedOp(f"{held.kind} has no method {name}", fix="export the model with torch.export")
        around, self.recorder.module = self.recorder.module, held.path or self.recorder.module
        result = self._called(function, [held, *given], named or {})
        self.recorder.module = around
        return result

    def _called(self, function: ast.FunctionDef, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Return what a function returns."""
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise UnsupportedOp(f"calls nest more than {_MOST_DEPTH} deep", fix="simplify the model")
        names = [each.arg for each in function.args.args]
        held = dict(zip(names, given, strict=False)) | dict(named)
        defaults = function.args.defaults
        for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
            if name not in held:
                held[name] = self.value(default, {})
        if len(given) > len(names) or set(held) != set(names):
            raise ValueError(f"{function.name} is called with other arguments than it has")
        try:
            result = self._run(function.body, held)
        except XdlcError as problem:
            if not problem.where:
                of = f", module {self.recorder.module!r}" if self.recorder.module else ""
                problem.where = f"{self._code.path}: function {function.name}{of}"
            raise
        self._depth -= 1
        return None if result is _NEXT else result

    def _run(self, body: Sequence[ast.stmt], held: dict[str, Any]) -> Any:
        """Run statements; return what they return, or a mark that they return nothing."""
        for statement in body:
            self._count()
            result = self._statement(statement, held)
            if result is not _NEXT:
                return result
        return _NEXT

    def returns(self, body: Sequence[ast.stmt], held: dict[str, Any]) -> bool:
        """Run statements; return whether they return."""
        return self._run(body, held) is not _NEXT

    def _count(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise UnsupportedOp(f"takes more than {_MOST_STEPS} steps", fix="export it with torch.export")

    def _statement(self, statement: ast.stmt, held: dict[str, Any]) -> Any:
        if isinstance(statement, ast.Return):
            return None if statement.value is None else self.value(statement.value, held)
        if isinstance(statement, ast.Assign):
            value = self.value(statement.value, held)
            for target in statement.targets:
                self._assign(target, value, held)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            self._assign(statement.target, self.value(statement.value, held), held)
        elif isinstance(statement, ast.Expr):
            self.value(statement.value, held)
        elif isinstance(statement, ast.If):
            test = self.value(statement.test, held)
            if not isinstance(test, Tensor):
                return self._run(statement.body if test else statement.orelse, held)
            branch(self, test, (statement.body, statement.orelse), held)
        elif isinstance(statement, ast.For | ast.While):
            return self._loop(statement, held)
        elif isinstance(statement, ast.With):
            return self._run(statement.body, held)
        elif not isinstance(statement, ast.AnnAssign | ast.Pass | ast.Assert):
            raise _unknown(type(statement).__name__)
        return _NEXT

    def _assign(self, target: ast.expr, value: Any, held: dict[str, Any]) -> None:
        """Set a variable, an attribute, or several."""
        if isinstance(target, ast.Name):
            held[target.id] = value
        elif isinstance(target, ast.Attribute):
            self._set(self.value(target.value, held), target.attr, value)
        elif isinstance(target, ast.Tuple):
            if not isinstance(value, tuple | list):
                raise ValueError("what is no tuple is taken apart")
            for each, item in zip(target.elts, value, strict=True):
                self._assign(each, item, held)
        else:
            raise _unknown(target)

    def _set(self, held: Any, name: str, value: Any) -> None:
        if not isinstance(held, Object):
            raise ValueError(f"sets attribute {name} of what is no object")
        if self.recorder.branches:
            path = f"{held.path}.{name}".lstrip(".")
            raise UnsupportedOp(f"attribute {path!r} is set in a branch that depends on data", fix=FIX)
        self.changed.setdefault((id(held), name), (held, held.fields.get(name)))
        held.fields[name] = value

    def _loop(self, loop: ast.For | ast.While, held: dict[str, Any]) -> Any:
        for index in self._runs(loop, held):
            self._count()
            if isinstance(loop, ast.For):
                self._assign(loop.target, index, held)
            result = self._run(loop.body, held)
            if result is not _NEXT:
                return result
        return _NEXT

    def _runs(self, loop: ast.For | ast.While, held: dict[str, Any]) -> Iterator[int]:
        """Iterate over the runs of a loop."""
        if isinstance(loop, ast.For):
            if not (isinstance(loop.iter, ast.Call) and ast.unparse(loop.iter.func) == "range"):
                raise _unknown(loop.iter)
            yield from range(_known(self.value(loop.iter.args[0], held)))
        else:
            while _known(self.value(loop.test, held)):
                yield 0

    def value(self, node: ast.expr, held: Mapping[str, Any]) -> Any:
        """Return the value of an expression."""
        self._count()
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return held[node.id] if node.id in held else _NUMBERS[node.id]
        if isinstance(node, ast.List | ast.Tuple):
            items = [self.value(each, held) for each in node.elts]
            return items if isinstance(node, ast.List) else tuple(items)
        if isinstance(node, ast.Dict):
            keys = [self.value(each, held) for each in node.keys if each is not None]
            return dict(zip(keys, [self.value(each, held) for each in node.values], strict=True))
        if isinstance(node, ast.Call):
            return self._call(node, held)
        if isinstance(node, ast.Attribute):
            path = _path(node)
            if path.partition(".")[0] in _ROOTS and path.partition(".")[0] not in held:
                return self._named(path)
            return self._attribute(self.value(node.value, held), node.attr)
        if isinstance(node, ast.Subscript):
            return self._operator("__getitem__", [self.value(node.value, held), self.value(node.slice, held)])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self._operator("neg", [self.value(node.operand, held)])
        if isinstance(node, ast.IfExp):
            test = self.value(node.test, held)
            if not isinstance(test, Tensor):
                return self.value(node.body if test else node.orelse, held)
        raise _unknown(node)

    def _named(self, path: str) -> Any:
        """Return what a qualified name denotes."""
        root, _, name = path.partition(".")
        if root == "CONSTANTS":
            return self.constants[int(name[1:])]
        kind, _, member = path.rpartition(".")
        value = self._code.fields(kind).get(member) if root == "__torch__" else None
        return Named(path) if value is None else self.value(value, {})  # a member of an enumeration

    def _attribute(self, held: Any, name: str) -> Any:
        if not isinstance(held, Object):
            raise ValueError(f"reads attribute {name} of what is no object")
        if name not in held.fields:
            declared = self._code.fields(held.kind).get(name)
            if declared is None:
                raise ValueError(f"{held.kind} has no attribute {name}")
            held.fields[name] = self.value(declared, {})
        return held.fields[name]

    def _call(self, node: ast.Call, held: Mapping[str, Any]) -> Any:
        function = node.func
        if isinstance(function, ast.Name) and function.id not in held:
            return self._builtin(function.id, node.args, held)
        given = [self.value(each, held) for each in node.args]
        named = {each.arg: self.value(each.value, held) for each in node.keywords if each.arg}
        if isinstance(function, ast.Attribute) and _path(function).partition(".")[0] not in _ROOTS:
            owner = self.value(function.value, held)
            if isinstance(owner, Object):
                return self.method(owner, function.attr, given, named)
            raise _unknown(function)
        path = self.value(function, held)
        if not isinstance(path, Named):
            raise ValueError("calls what is no function")
        if path.startswith("__torch__."):
            return self._function(path, given, named)
        space, _, name = path.removeprefix("ops.").partition(".")
        return self._operator(name, given, named, "aten" if space == "torch" else space)

    def _function(self, path: str, given: list[Any], named: Mapping[str, Any]) -> Any:
        """Call a function of the code, or make an object of a class."""
        if path.endswith(".__new__"):
            return Object(str(given[0]))
        found = self._code.find(path)
        if isinstance(found, ast.FunctionDef):
            return self._called(found, given, named)
        if isinstance(found, ast.ClassDef) and self._code.method(path, "__init__") is None:
            return tuple(given)  # a NamedTuple
        raise UnsupportedOp(f"{path} is not in the code", fix="save the model again")

    def _operator(
        self, name: str, given: list[Any], named: Mapping[str, Any] | None = None, space: str = "aten"
    ) -> Any:
        if name not in _AT_ONCE:
            self._steps += (
                sum(len(each) for each in given if isinstance(each, list | tuple | dict | str)) >> 1
            )
        self._count()
        return applied(self.recorder, space, name, given, named or {}, self._code.version)

    def _builtin(self, name: str, nodes: Sequence[ast.expr], held: Mapping[str, Any]) -> Any:
        """Call a function that is no operator; types among its arguments are not evaluated."""
        if name in ("annotate", "unchecked_cast"):
            value = self.value(nodes[1], held)
            is_number = isinstance(nodes[0], ast.Name) and nodes[0].id == "number"
            return self._operator("ScalarImplicit", [value]) if is_number else value
        if name == "uninitialized":
            return None
        if name == "isinstance":
            return self._is_instance(self.value(nodes[0], held), nodes[1])
        given = [self.value(each, held) for each in nodes]
        if name == "getattr":
            return self._attribute(*given)
        if name in ("int", "float", "bool"):
            return self._operator(name.capitalize(), given)
        if name == "range" or not primitives.is_known(name):
            raise _unknown(f"{name}()")
        return self._operator(name, given)

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
        raise UnsupportedOp("how often a loop runs depends on data", fix=FIX)
    return value


def _unknown(what: ast.expr | str) -> UnsupportedOp:
    text = what if isinstance(what, str) else ast.unparse(what)
    return UnsupportedOp(f"TorchScript with {text[:80]} is not understood", fix="export it with torch.export")


def _path(node: ast.expr) -> str:
    """Return a chain of names as text; an empty text for any other expression."""
    parts = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""
