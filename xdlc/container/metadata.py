"""Metadata of a DLC: JSON entries of format 4, the text entry of format 3.

``Model.metadata`` has it, and the content of xdlc's own records, as plain values under the keys ``version``
``history`` ``cacheList`` ``relations``, ``layouts`` (input or output name -> note on its axes, like
``NCHW``), ``preprocessing`` (input name -> what the graph does with what callers have), ``symbols`` (input or
output name -> symbol of each axis, or None), ``nodes`` (of the source model: name, operator, and the reason
why it has no op, or None), ``tensors`` (graph -> tensor -> its names in the source, where those are not just
its own; under the empty name those of no tensor), ``layers`` (op -> id of the layer that it was translated
from) and, of format 3, ``properties``.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import Any

from xdlc.errors import ContainerError, UsageError
from xdlc.ir import Model
from xdlc.ir.model import malformed
from xdlc.json_fields import MAX_VALUES, fits, json_value
from xdlc.version import VERSION

MAIN = "dlc.metadata2.3.0"
HISTORY = "dlc.metadata.history.2.3.0"
TEXT = "dlc.metadata"  # of format 3: lines key=value, among them the commands that made the file
MAX_TEXT = 1 << 28
_SHORTEST, _MOST = 3, 1 << 24
"""Texts of very many ops have a value in so many bytes, and at most so many values are read."""
MAX_LINES = 1 << 22  # bytes of the text of format 3
AGAIN = "get the file again"
"""Fix of errors about damaged records."""
# The epoch of zip files: the time without SOURCE_DATE_EPOCH.
NO_TIME = "1980-01-01 00:00:00 UTC"
DEFAULT_COMMAND = "converterCommand"
TEXT_COMMANDS = ("converter-command", "quantizer-command")
TEXT_VERSION = "converter-version"
TEXT_NOTHING = "N/A"


def read_json(data: memoryview, form: Any, where: str) -> Any:
    """Return the JSON value of an entry.

    Args:
        data: The entry.
        form: The form that the value should have, for ``xdlc.json_fields.fits``.
        where: Place for errors.

    Raises:
        ContainerError: If it is not UTF-8, no JSON, of another form, or too large or too deeply nested to be
            read.
    """
    if len(data) > MAX_TEXT:
        raise ContainerError(f"has {len(data)} bytes, at most {MAX_TEXT} are read", where=where, fix=AGAIN)
    try:
        value = json_value(str(data, "utf-8"), max(MAX_VALUES, min(len(data) // _SHORTEST, _MOST)))
    except ValueError as error:
        raise ContainerError(f"is no JSON text that is read: {error}", where=where, fix=AGAIN) from error
    if not fits(value, form):
        raise ContainerError("holds other JSON values than those expected", where=where, fix=AGAIN)
    return value


def formed(metadata: dict[str, Any], where: str) -> dict[str, Any]:
    """Return values of ``Model.metadata`` from a file, in their proper forms.

    Raises:
        ContainerError: If one has not.
    """
    key = malformed(metadata)
    if key is not None:
        raise ContainerError(f"has malformed {key!r}", where=where, fix=AGAIN)
    return metadata


def compact(content: Mapping[str, Any]) -> bytes:
    """Return an object as JSON text without blanks."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def is_main(name: str) -> bool:
    """Return whether an entry is the JSON metadata of any schema version."""
    return name.startswith("dlc.metadata") and name != TEXT and not is_history(name)


def is_history(name: str) -> bool:
    """Return whether an entry is the JSON history of any schema version."""
    return name.startswith("dlc.metadata.history")


def timestamp() -> str:
    """Return the time to write: SOURCE_DATE_EPOCH if it is set, else the zip epoch.

    Raises:
        UsageError: If SOURCE_DATE_EPOCH is not a number of seconds.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch:
        return NO_TIME
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(int(epoch)))
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(
            f"SOURCE_DATE_EPOCH should be a number of seconds, is {epoch!r}", fix="unset or correct it"
        ) from error


def read_main(data: memoryview, metadata: dict[str, Any], where: str) -> None:
    """Put the lists of the JSON metadata into ``metadata``.

    Raises:
        ContainerError: If it is no JSON, or a list holds something else than objects or names of records.
    """
    found = read_json(data, {}, where)
    metadata |= formed({key: found[key] for key in ("cacheList", "relations") if key in found}, where)


def read_history(data: memoryview, metadata: dict[str, Any], where: str) -> None:
    """Put the commands that made the file into ``metadata["history"]``, oldest first."""
    found = read_json(data, {"dlcGenerationInfo": [{"*": dict}]}, where)
    steps = [
        step if command == DEFAULT_COMMAND else {"command": command} | step
        for item in found.get("dlcGenerationInfo", ())
        for command, step in item.items()
    ]
    if steps:
        metadata |= formed({"history": steps}, where)


def read_text(data: memoryview, metadata: dict[str, Any], where: str) -> None:
    """Read the text metadata of format 3 into ``metadata`` and the history.

    Raises:
        ContainerError: If the text is not UTF-8.
    """
    try:
        lines = str(data, "utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ContainerError("is not UTF-8", where=where, fix="get the file again") from error
    pairs = dict(line.split("=", 1) for line in lines if "=" in line)
    metadata["properties"] = pairs
    steps = [
        {
            "tool": pairs[key].split(" ", 1)[0],
            "converterVersion": pairs.get(TEXT_VERSION, ""),
            "args": {"command": pairs[key]},
        }
        for key in TEXT_COMMANDS
        if pairs.get(key, TEXT_NOTHING) != TEXT_NOTHING
    ]
    if steps:
        metadata["history"] = steps


def add_step(model: Model, tool: str, args: Mapping[str, Any]) -> None:
    """Add a step of a tool of xdlc to the history of a model.

    Args:
        tool: Name of the tool.
        args: Options that were given, as JSON takes them.
    """
    step = {"tool": tool, "converterVersion": VERSION, "args": dict(args)}
    model.metadata.setdefault("history", []).append(step)


def _header(artifact: str, time: str) -> dict[str, Any]:
    return {
        "artifact_type": artifact,
        "header_version": {"major": 0, "minor": 1, "patch": 0},
        "version": {"major": 2, "minor": 3, "patch": 0},
        "timestamp": time,
    }


def main_text(model: Model) -> bytes:
    """Return the JSON metadata of a model; caches and relations where it has some."""
    content: dict[str, Any] = {"header": _header("DLC_METADATA", timestamp())}
    for key in ("cacheList", "relations"):
        if model.metadata.get(key):
            content[key] = model.metadata[key]
    return _pretty(content)


def history_text(model: Model) -> bytes:
    """Return the JSON history of a model.

    Every step gets all fields, the file's time among them: the vendor's reader finds no graph in a
    file with a step that lacks ``converterVersion``.
    """
    now = timestamp()
    steps = []
    for given in model.metadata.get("history", ()):
        step = {"tool": "", "converterVersion": "", "args": {}, "timestamp": now} | given
        step.pop("command", None)
        steps.append({given.get("command", DEFAULT_COMMAND): step})
    return _pretty({"header": _header("DLC_METADATA_HISTORY", now), "dlcGenerationInfo": steps})


def _pretty(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, indent=4, ensure_ascii=False).encode("utf-8")
