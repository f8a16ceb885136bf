"""HTA sections: which ops go on the accelerator, and their compilation into xdlc's own plans."""

from xdlc.prepare.hta.prepare import PreparedHta, check_soc, prepare, without_sections
from xdlc.prepare.hta.ranges import parse_ranges
from xdlc.prepare.hta.rules import Rejected

__all__ = ["PreparedHta", "Rejected", "check_soc", "parse_ranges", "prepare", "without_sections"]
