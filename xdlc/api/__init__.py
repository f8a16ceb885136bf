"""The Python interface: the tools' verbs, with the tools' flags as options of the same names."""

from __future__ import annotations

from xdlc.api.conversion import check, convert, draft_udo_config
from xdlc.api.custom_kernels import kernels
from xdlc.api.execution import Session, emulation, run, sections, session
from xdlc.api.exporting import export_encodings, to_onnx
from xdlc.api.inspection import check_platform, verdicts
from xdlc.api.models import executable, load, preparable, save
from xdlc.api.preparation import prepare, prepare_all, prepare_hta
from xdlc.api.quantization import quantize

__all__ = [
    "Session",
    "check",
    "check_platform",
    "convert",
    "draft_udo_config",
    "emulation",
    "executable",
    "export_encodings",
    "kernels",
    "load",
    "preparable",
    "prepare",
    "prepare_all",
    "prepare_hta",
    "quantize",
    "run",
    "save",
    "sections",
    "session",
    "to_onnx",
    "verdicts",
]
