"""Caches for the HTP: each SoC's own compilation of a model, stored in the DLC beside it."""

from xdlc.prepare.htp.prepare import Prepared, PrepareError, by_cause, prepare, prepare_all

__all__ = ["PrepareError", "Prepared", "by_cause", "prepare", "prepare_all"]
