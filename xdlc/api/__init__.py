"""Python interface: verbs of the tools, with their flags as options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdlc.lazy import names_of

if TYPE_CHECKING:
    from xdlc.api.batching import batch
    from xdlc.api.building import build
    from xdlc.api.comparing import compare
    from xdlc.api.conversion import check, convert, draft_udo_config
    from xdlc.api.costing import cost
    from xdlc.api.debugging import debug
    from xdlc.api.differing import diff
    from xdlc.api.execution import Session, kernels, run, session
    from xdlc.api.models import annotate, executable, export_encodings, load, save, to_onnx
    from xdlc.api.plugins import check_plugin
    from xdlc.api.preparation import (
        export_binary,
        export_epcontext,
        link,
        optimize,
        prepare,
        prepare_all,
        prepare_hta,
        preprocess,
        quantize,
        support_matrix,
        verdicts,
    )
    from xdlc.api.runtimes import check_platform, runtime_with
    from xdlc.api.runtimes.htp import with_stored_cache
    from xdlc.api.viewing import view, view_content
    from xdlc.options.running import RunOptions

__all__ = [
    "RunOptions",
    "Session",
    "annotate",
    "batch",
    "build",
    "check",
    "check_platform",
    "check_plugin",
    "compare",
    "convert",
    "cost",
    "debug",
    "diff",
    "draft_udo_config",
    "executable",
    "export_binary",
    "export_encodings",
    "export_epcontext",
    "kernels",
    "link",
    "load",
    "optimize",
    "prepare",
    "prepare_all",
    "prepare_hta",
    "preprocess",
    "quantize",
    "run",
    "runtime_with",
    "save",
    "session",
    "support_matrix",
    "to_onnx",
    "verdicts",
    "view",
    "view_content",
    "with_stored_cache",
]

_NAMES = {
    ".batching": "batch",
    ".building": "build",
    ".comparing": "compare",
    ".conversion": "check convert draft_udo_config",
    ".costing": "cost",
    ".debugging": "debug",
    ".differing": "diff",
    ".execution": "Session kernels run session",
    ".models": "annotate executable export_encodings load save to_onnx",
    ".plugins": "check_plugin",
    ".preparation": (
        "export_binary export_epcontext link optimize prepare prepare_all prepare_hta preprocess quantize"
        " support_matrix verdicts"
    ),
    ".runtimes": "check_platform runtime_with",
    ".runtimes.htp": "with_stored_cache",
    ".viewing": "view view_content",
    "xdlc.options.running": "RunOptions",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}
__getattr__ = names_of(__name__, _HOMES)
