"""Forms that the values of ``Model.metadata`` have, for what was read from untrusted input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NOTE = str | None
FORMS: Mapping[str, Any] = {
    "version": str,
    "properties": {"*": str},
    "history": [{"tool": str, "converterVersion": str, "command": str}],
    "cacheList": [dict],
    "relations": [{"parentRecordName": str, "childRecordNames": [str]}],
    "layouts": {"*": str},
    "preprocessing": {"*": str},
    "symbols": {"*": [NOTE]},
    "states": {"*": {"output": str}},
    "nodes": [(str, str, NOTE)],
    "tensors": {"*": {"*": [str]}},
    "weight_factors": {"*": {"*": [str]}},
    "layers": {"*": int},
}
"""The form by key: a type, a list or tuple of forms, or members that may be missing, ``*`` for all others."""


def malformed(metadata: Mapping[str, Any]) -> str | None:
    """Return the first key whose value has another form than the rest of the package reads, or None."""
    return next((key for key in metadata if not fits(metadata[key], FORMS.get(key, object))), None)


def fits(value: Any, form: Any) -> bool:
    """Return whether a JSON value has a form."""
    if isinstance(form, list):
        return isinstance(value, list) and all(fits(each, form[0]) for each in value)
    if isinstance(form, tuple):
        return isinstance(value, list) and len(value) == len(form) and all(map(fits, value, form))
    if isinstance(form, dict):
        if not isinstance(value, dict):
            return False
        return all(fits(held, form.get(key, form.get("*", object))) for key, held in value.items())
    return isinstance(value, form)
