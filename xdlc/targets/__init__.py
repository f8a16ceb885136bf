"""SoCs and the capabilities of their generations."""

from xdlc.targets.loader import (
    FIRST_HTP,
    Arch,
    Soc,
    all_archs,
    all_socs,
    arch_numbers,
    find_arch,
    find_soc,
    one_of_each,
)

__all__ = [
    "FIRST_HTP",
    "Arch",
    "Soc",
    "all_archs",
    "all_socs",
    "arch_numbers",
    "find_arch",
    "find_soc",
    "one_of_each",
]
