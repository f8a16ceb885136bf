"""Caches for the HTP: a compilation for each SoC in the DLC."""

from xdlc.prepare.htp.prepare import Prepared, PrepareError, by_cause, prepare, prepare_all

__all__ = ["PrepareError", "Prepared", "by_cause", "prepare", "prepare_all"]
