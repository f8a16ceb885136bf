"""Calls of the tools in the process of the test."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from click.testing import CliRunner, Result


def invoke(tool: Any, *words: object, code: int = 0, **settings: Any) -> Result:
    """Call a tool, or that of a module; its exit code has to be ``code``."""
    command = tool.main if isinstance(tool, ModuleType) else tool
    result = CliRunner().invoke(command, [*map(str, words)], **settings)
    assert result.exit_code == code, result.output
    return result
