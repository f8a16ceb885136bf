"""Preparation for HTA: division of a quantized model into sections."""

from xdlc.prepare.hta.op_support import RejectedOp
from xdlc.prepare.hta.partitioner import parse_ranges
from xdlc.prepare.hta.prepare import PreparedHta, check_soc, prepare, sections_in, without_sections

__all__ = [
    "PreparedHta",
    "RejectedOp",
    "check_soc",
    "parse_ranges",
    "prepare",
    "sections_in",
    "without_sections",
]
