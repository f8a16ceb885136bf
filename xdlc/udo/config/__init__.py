"""Configurations of user-defined operations: JSON UDO configurations and OpDef XML."""

from xdlc.udo.config.reading import Config, problems, read, read_config
from xdlc.udo.config.writing import write_json

__all__ = ["Config", "problems", "read", "read_config", "write_json"]
