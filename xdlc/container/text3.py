"""Text metadata of format 3: lines ``key=value``, among them the commands that made a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xdlc.errors import ContainerError
from xdlc.ir import Model

COMMAND_KEYS = ("converter-command", "quantizer-command")
VERSION_KEY = "converter-version"
NOTHING = "N/A"


def read_text(data: memoryview, metadata: dict[str, Any], where: str) -> None:
    """Put ``key=value`` lines into ``metadata["properties"]`` and the commands into the history.

    Raises:
        ContainerError: If the text is not UTF-8.
    """
    try:
        lines = bytes(data).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ContainerError("is not UTF-8", where=where, fix="get the file again") from error
    pairs = dict(line.split("=", 1) for line in lines if "=" in line)
    metadata["properties"] = pairs
    steps = _steps(pairs)
    if steps:
        metadata["history"] = steps


def _steps(pairs: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {
            "tool": pairs[key].split(" ", 1)[0],
            "converterVersion": pairs.get(VERSION_KEY, ""),
            "args": {"command": pairs[key]},
        }
        for key in COMMAND_KEYS
        if pairs.get(key, NOTHING) != NOTHING
    ]


def properties(history: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the ``properties`` of a model of format 3: its first step, and the last that quantized it.

    Args:
        history: Steps, as ``Model.metadata`` has them.
    """
    converter, quantizer = COMMAND_KEYS
    found = {converter: NOTHING, VERSION_KEY: NOTHING}
    found |= {"model-copyright": NOTHING, "model-version": NOTHING, quantizer: NOTHING}
    for step in history:
        key = quantizer if "quant" in str(step.get("tool")) else converter
        if key == quantizer or found[converter] == NOTHING:
            found[key] = _command(step)
        if key == converter or found[VERSION_KEY] == NOTHING:
            found[VERSION_KEY] = str(step.get("converterVersion") or NOTHING)
    return found


def _command(step: Mapping[str, Any]) -> str:
    args = step.get("args")
    named = args if isinstance(args, dict) else {}
    if list(named) == ["command"]:
        return str(named["command"])
    words = [str(step.get("tool", "")), *(f"{key}={value}" for key, value in named.items())]
    return " ".join(words).replace("\n", " ")


def write_text(model: Model) -> bytes:
    """Return the text metadata of a model of format 3."""
    pairs = model.metadata.get("properties") or properties(model.metadata.get("history", ()))
    return "".join([f"{key}={value}\n" for key, value in pairs.items()]).encode("utf-8")
