"""DLC containers: reading, writing, and the caches and records in them."""

from xdlc.container.caches import Cache, add_cache, caches, remove_caches
from xdlc.container.metadata import io_contract
from xdlc.container.storage import Description, describe, load, save

__all__ = [
    "Cache",
    "Description",
    "add_cache",
    "caches",
    "describe",
    "io_contract",
    "load",
    "remove_caches",
    "save",
]
