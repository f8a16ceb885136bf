"""Caches whose weights are records of their own, which caches for several SoCs can have in common.

The vendor's library calls it reference weight sharing: a context made with it goes into a DLC as a cache
without weights and a record ``htp.shared.weights.<hash>`` with a description of it.  The hash is that of
the weights in the form that an architecture wants: v68 and v69 have one form, v73 and v75 another.  The
library takes such caches on devices only; its emulation says that the platform does not support them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from xdlc.container import load
from xdlc.container.caches import PREFIX, SHARED
from xdlc.errors import BackendError
from xdlc.ir import TensorData

if TYPE_CHECKING:
    from xdlc.runtime.htp.backend import Htp

FILE = "cache.dlc"


def shared_cache(htp: Htp, folder: Path) -> bytes:
    """Let the library write a DLC with the context, in the child; return the cache in it.

    Raises:
        BackendError: If there is not one cache in it.
    """
    htp.add_to_dlc(folder / FILE)
    records = load(folder / FILE).records
    found = [name for name in records if name.startswith(PREFIX)]
    if len(found) != 1:
        raise BackendError(f"the vendor's library wrote {len(found)} caches, expected one")
    return bytes(records[found[0]].numpy().data)


def shared_records(folder: Path) -> dict[str, TensorData]:
    """Return the weights that the child's DLC has beside the cache, and their descriptions, by record."""
    path = folder / FILE
    if not path.exists():
        return {}
    return {name: data for name, data in load(path).records.items() if name.startswith(SHARED)}
