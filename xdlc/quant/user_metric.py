"""Metric of a network by the user: a function in Python, or the name of one in a file."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from typing import Any, TypeAlias

from xdlc.errors import UsageError, XdlcError, nearest_names
from xdlc.options import spell
from xdlc.runtime.udo.python_file import raised

Run: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Takes an array per input by name, in the graph's own layout; returns one per output."""
Evaluate: TypeAlias = Callable[[Run], float]
"""Takes what runs a network; returns how good it is, the higher the better."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of a network and the least that it has to return.

    Attributes:
        evaluate: The function.
        least: The least score.
    """

    evaluate: Evaluate
    least: float


def checked(evaluate: Evaluate | str) -> Evaluate:
    """Return a metric whose failures are errors that name file and line.

    The metric raises BackendError if the function does, and UsageError if it returns no number.

    Args:
        evaluate: The function, or ``FILE.py:FUNCTION``; the file's code is run.

    Raises:
        UsageError: If there is no such file or function.
        BackendError: If the file cannot be loaded.
    """
    function = _loaded(evaluate) if isinstance(evaluate, str) else evaluate
    name = getattr(function, "__qualname__", type(function).__name__)
    path = getattr(getattr(function, "__code__", None), "co_filename", name)

    def measured(run: Run) -> float:
        try:
            value = function(run)
        except XdlcError as error:
            lines = [frame for frame in extract_tb(error.__traceback__) if frame.filename == path]
            where = f"{path}:{lines[-1].lineno}" if lines else path
            raise UsageError(
                f"the metric {name} failed: {error.problem}", where=where, fix=error.fix
            ) from error
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # sys.exit() of the metric ends no tool
            raise raised(error, path, f"the metric {name}") from error
        try:
            score = math.nan if isinstance(value, str) else float(value)
        except (TypeError, ValueError):
            score = math.nan
        if math.isnan(score):
            raise UsageError(
                f"the metric {name} returned {value!r:.100}, which is no number",
                where=path,
                fix="return a number, the higher the better",
            )
        return score

    return measured


def _loaded(text: str) -> Evaluate:
    """Return the function that ``FILE.py:FUNCTION`` names."""
    file, _, name = text.rpartition(":")
    path, where = Path(file), spell("evaluate")
    if path.suffix != ".py" or not name.isidentifier():
        raise UsageError(f"{text!r} names no function", where=where, fix="write it as FILE.py:FUNCTION")
    if not path.is_file():
        raise UsageError(f"no file {file!r}", where=where, fix="give the path of an existing file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise raised(error, str(path), "loading the metric") from error
    finally:
        sys.path.remove(str(path.resolve().parent))
    function = getattr(module, name, None)
    if not callable(function):
        functions = [key for key, held in vars(module).items() if callable(held) and key[0] != "_"]
        raise UsageError(
            f"{file} has no function {name!r}",
            where=where,
            fix=nearest_names(name, functions) or f"define it: def {name}(run): ... return score",
        )
    return function  # type: ignore[no-any-return]
