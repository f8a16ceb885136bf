"""The decorator form of a plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdlc.errors import UsageError, nearest_names
from xdlc.udo.plugin.base import Plugin

HOOKS = ("accepts", "parse_params", "infer_shape_and_type", "build_kernel", "compute")


def plugin(**declared: Any) -> Callable[[Any], type[Plugin]]:
    """Return a decorator that makes a plugin of a class with hooks, or of a function, its ``compute``.

    Args:
        **declared: Attributes of :class:`Plugin`; for a function also its other hooks, as functions
            without ``self``.

    Raises:
        UsageError: If there is no attribute or hook of a name.

    Example:
        >>> @plugin(op_type="Twice", package="Math", inputs=["x"], outputs=["y"])
        ... def twice(inputs, params, outputs):
        ...     return inputs[0] * 2
        >>> twice.__name__, issubclass(twice, Plugin)
        ('twice', True)
    """
    known = [name for name in vars(Plugin) if not name.startswith("_")] + ["compute"]
    for name in declared:
        if name not in known:
            raise UsageError(f"a plugin has no {name!r}", fix=nearest_names(name, known) or None)

    def make(target: Any) -> type[Plugin]:
        if isinstance(target, type):
            return _made(target, (target,) if issubclass(target, Plugin) else (target, Plugin), declared)
        if not callable(target):
            raise UsageError(
                f"plugin(...) decorates a class or a function, not {target!r}", fix="put it above one"
            )
        if "compute" in declared:
            raise UsageError("compute is both given and decorated", fix="leave one of them out")
        hooks = {name: staticmethod(declared[name]) for name in HOOKS if name in declared}
        return _made(target, (Plugin,), {**declared, **hooks, "compute": staticmethod(target)})

    return make


def _made(target: Any, bases: tuple[type, ...], declared: dict[str, Any]) -> type[Plugin]:
    body = {
        **declared,
        "__doc__": target.__doc__,
        "__module__": target.__module__,
        "__qualname__": target.__qualname__,
    }
    return type(target.__name__, bases, body)
