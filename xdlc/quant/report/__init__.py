"""Report of the loss of a quantization, as HTML, JSON or CSV."""

from xdlc.quant.report.measure import measure
from xdlc.quant.report.model import SCHEMA, Judgement, OpReport, OutputReport, QuantReport, TensorReport
from xdlc.quant.report.reporter import FORMS, Reporter, check_path, summary, write

__all__ = [
    "FORMS",
    "SCHEMA",
    "Judgement",
    "OpReport",
    "OutputReport",
    "QuantReport",
    "Reporter",
    "TensorReport",
    "check_path",
    "measure",
    "summary",
    "write",
]
