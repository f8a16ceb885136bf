"""Forms that the values of ``Model.metadata`` have, for what was read from untrusted input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

MAX_LAYER = 0x7FFFFFFF
_Form = Callable[[Any], bool]


def malformed(metadata: Mapping[str, Any]) -> str | None:
    """Return the first key whose value has another form than the rest of the package reads, or None."""
    return next((key for key, value in metadata.items() if key in FORMS and not FORMS[key](value)), None)


def is_step(value: Any) -> bool:
    """Return whether a value is an origin as JSON: a reason or None, then names of nodes."""
    return isinstance(value, list) and bool(value) and _is_note(value[0]) and _is_texts(value[1:])


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_note(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _list(form: _Form) -> _Form:
    return lambda value: isinstance(value, list) and all(map(form, value))


def _object(form: _Form) -> _Form:
    return lambda value: isinstance(value, dict) and all(map(form, value.values()))


_is_texts = _list(_is_text)


def _is_command(value: Any) -> bool:
    texts = ("tool", "converterVersion", "command")
    return isinstance(value, dict) and all(isinstance(value.get(key, ""), str) for key in texts)


def _is_relation(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("parentRecordName", ""), str):
        return False
    return _is_texts(value.get("childRecordNames", []))


def _is_node(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 3 and _is_texts(value[:2]) and _is_note(value[2])


def _is_layer(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_LAYER


FORMS: Mapping[str, _Form] = {
    "version": _is_text,
    "properties": _object(_is_text),
    "history": _list(_is_command),
    "cacheList": _list(_is_object),
    "relations": _list(_is_relation),
    "layouts": _object(_is_text),
    "preprocessing": _object(_is_text),
    "symbols": _object(_list(_is_note)),
    "states": _object(_is_object),
    "nodes": _list(_is_node),
    "tensors": _object(_object(_is_texts)),
    "layers": _object(_is_layer),
}
