"""Configurations of user-defined operations: JSON UDO configurations and OpDef XML."""

from xdlc.udo.config.converting import Converted, convert
from xdlc.udo.config.drafting import Draft, draft
from xdlc.udo.config.inspecting import Inspected, inspect
from xdlc.udo.config.reading import Config, read, read_config
from xdlc.udo.config.writing import write_json

__all__ = [
    "Config",
    "Converted",
    "Draft",
    "Inspected",
    "convert",
    "draft",
    "inspect",
    "read",
    "read_config",
    "write_json",
]
