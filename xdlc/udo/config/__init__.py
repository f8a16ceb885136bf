"""Configurations of UDOs: JSON UDO configurations and OpDef XML."""

from xdlc.udo.config.convert import Converted, convert, schema
from xdlc.udo.config.json_writer import write_json
from xdlc.udo.config.reader import Config, Inspected, inspect, read, read_config
from xdlc.udo.config.skeleton import Draft, draft

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
    "schema",
    "write_json",
]
