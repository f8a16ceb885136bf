"""DLC containers: reading, writing, and the caches and records in them."""

from xdlc.container.metadata import io_contract
from xdlc.container.storage import Description, describe, load, save

__all__ = [
    "Description",
    "describe",
    "io_contract",
    "load",
    "save",
]
