"""SoCs and what their generation can do."""

from xdlc.targets.loader import Arch, Soc, all_archs, all_socs, find_arch, find_soc

__all__ = ["Arch", "Soc", "all_archs", "all_socs", "find_arch", "find_soc"]
