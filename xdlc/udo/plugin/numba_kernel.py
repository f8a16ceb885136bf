"""Kernels that ``build_kernel`` returns as functions compiled by numba."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

from xdlc.errors import UsageError
from xdlc.opdefs.op_view import OpView, TensorSpec
from xdlc.runtime.udo.build_descriptor import kernel_dtype

Array = Any  # numpy.ndarray
_NUMBA = "numba"


def is_numba(value: object) -> bool:
    """Return whether a value is a function that numba compiles."""
    return callable(value) and _is_of_numba(type(value))


def uses_numba(plugin: Any) -> bool:
    """Return whether ``build_kernel``, or a function that it names, uses numba.

    So the kernels' process finds out what ``build_kernel`` makes, before there is an op to make it for.
    Functions are those of the plugin and of its module; of other modules all that is in them counts.
    """
    pending: list[Any] = [inspect.unwrap(plugin.build_kernel)]
    seen: list[Any] = []
    while pending:
        function = pending.pop()
        if not isinstance(function, FunctionType) or function in seen:
            continue
        seen.append(function)
        names = set(_names(function.__code__))
        held = [function.__globals__[name] for name in names if name in function.__globals__]
        held += [each for module in held if isinstance(module, ModuleType) for each in vars(module).values()]
        if _NUMBA in names or any(_is_of_numba(value) or is_numba(value) for value in held):
            return True
        pending += [value for value in held if getattr(value, "__module__", None) == function.__module__]
        pending += [getattr(plugin, name, None) for name in names]
    return False


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_of_numba(value: Any) -> bool:
    """Return whether a module, class or function is of numba."""
    module = getattr(value, "__module__", None) or getattr(value, "__name__", "")
    return isinstance(module, str) and module.partition(".")[0] == _NUMBA


def checked(function: Any, op: OpView) -> None:
    """Compile a function for the types of its arguments.

    Args:
        function: The function, of which ``is_numba`` holds.
        op: The op; dimensions may be dynamic.

    Raises:
        UsageError: If it takes another number of arrays, or numba refuses the types.
    """
    import numba
    from numba.core.errors import NumbaError

    def array(spec: TensorSpec | None) -> Any:
        if spec is None:
            return numba.types.none
        return numba.types.Array(numba.from_dtype(kernel_dtype(spec.dtype).numpy), len(spec.shape), "C")

    returns = _returns(function, len(op.inputs), len(op.outputs))
    tensors = op.inputs if returns else (*op.inputs, *op.outputs)
    if getattr(function, "signatures", ()) or not hasattr(function, "nopython_signatures"):
        return  # its types are stated in the source
    try:
        function.compile(tuple(map(array, tensors)))
    except NumbaError as error:
        text = " ".join(str(error).split())[:600]
        fix = "correct the function, or return False in accepts for these nodes"
        raise UsageError(f"numba rejects {_name(function)}: {text}", fix=fix) from error


def called(function: Any, inputs: Sequence[Array | None], outputs: Sequence[TensorSpec]) -> Any:
    """Return the results of a function, which returns them or writes to arrays.

    Args:
        inputs: Its inputs; None for an omitted one.

    Raises:
        UsageError: If it takes neither the inputs alone nor inputs and outputs.
    """
    import numpy

    given = [None if array is None else numpy.require(array, requirements=["C", "W"]) for array in inputs]
    if _returns(function, len(inputs), len(outputs)):
        return function(*given)
    made = [numpy.zeros([dim or 0 for dim in out.shape], kernel_dtype(out.dtype).numpy) for out in outputs]
    function(*given, *made)
    return made


def _returns(function: Any, inputs: int, outputs: int) -> bool:
    """Return whether a function has only the inputs as parameters, not the outputs."""
    plain: Callable[..., Any] = getattr(function, "py_func", function)
    try:
        parameters = inspect.signature(plain).parameters.values()
    except (TypeError, ValueError):
        count = int(getattr(function, "nin", inputs))
    else:
        count = len(parameters)
        if any(one.kind is one.VAR_POSITIONAL for one in parameters):
            return False
    if count not in (inputs, inputs + outputs):
        raise UsageError(
            f"{_name(function)} has {count} parameters, but the op has {inputs} inputs and {outputs} outputs",
            fix="declare inputs as parameters and return the output, or declare inputs and outputs",
        )
    return count == inputs


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", "the function"))
