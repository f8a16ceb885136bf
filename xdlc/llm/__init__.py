"""Language models: from a checkpoint to the vendor's runtime of language models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdlc.lazy import names_of

if TYPE_CHECKING:
    from xdlc.llm.building import build

__all__ = ["build"]
_HOMES = {"build": ".building"}
__getattr__ = names_of(__name__, _HOMES)
