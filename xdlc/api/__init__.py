"""Python interface: the tools' verbs, with the tools' flags as options of the same names."""

from __future__ import annotations

from xdlc.api.conversion import check, convert, draft_udo_config
from xdlc.api.engines import emulation, kernels, sections, with_stored_cache
from xdlc.api.execution import Session, run, session
from xdlc.api.models import annotate, executable, export_encodings, load, save, to_onnx
from xdlc.api.plugins import check_plugin
from xdlc.api.preparation import (
    check_platform,
    optimize,
    prepare,
    prepare_all,
    prepare_hta,
    preprocess,
    verdicts,
)
from xdlc.api.quantization import quantize
from xdlc.options.running import RunOptions

__all__ = [
    "RunOptions",
    "Session",
    "annotate",
    "check",
    "check_platform",
    "check_plugin",
    "convert",
    "draft_udo_config",
    "emulation",
    "executable",
    "export_encodings",
    "kernels",
    "load",
    "optimize",
    "prepare",
    "prepare_all",
    "prepare_hta",
    "preprocess",
    "quantize",
    "run",
    "save",
    "sections",
    "session",
    "to_onnx",
    "verdicts",
    "with_stored_cache",
]
