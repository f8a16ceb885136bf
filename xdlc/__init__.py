"""Open toolchain for DLC model containers.

The verbs of the command line, in Python::

    report = xdlc.check("net.onnx", target="sm8650", input_dims={"x": (1, 3, 224, 224)})
    model = xdlc.convert("net.onnx", input_dims={"x": (1, 3, 224, 224)})
    quantized = xdlc.quantize(model, samples, weights_bitwidth=8, act_bitwidth=8)
    xdlc.prepare(quantized, socs=["sm8550", "sm8650"]).save("net.dlc")
    sections = xdlc.prepare_hta(quantized, "0-11").model
    [verdict.usable for verdict in xdlc.verdicts("net.dlc", "sm8450")]
    outputs = xdlc.run("net.dlc", {"x": image})
    with xdlc.Session("net.dlc", "htp", soc="sm8650") as session:
        results = [session.run({"x": image}) for image in images]
    xdlc.to_onnx("net.dlc", "net.onnx")
    xdlc.diff("before.dlc", "after.dlc").is_equal
    xdlc.view("net.dlc", "net.html")

Importing this package loads no heavy library; a verb loads the libraries that it needs.
"""

import sys

if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and "xdlc" in sys.orig_argv[-len(sys.argv)]:
    del sys.path[0]  # ``python -m xdlc`` would import from the current folder

from typing import TYPE_CHECKING

import xdlc.compare
import xdlc.cost
import xdlc.debug
import xdlc.diff
import xdlc.prepare
import xdlc.view  # noqa: F401
from xdlc.lazy import names_of
from xdlc.version import VERSION

if TYPE_CHECKING:
    from xdlc.api import (
        RunOptions,
        Session,
        annotate,
        batch,
        check,
        compare,
        convert,
        cost,
        debug,
        diff,
        export_binary,
        export_encodings,
        export_epcontext,
        link,
        load,
        prepare,
        prepare_hta,
        preprocess,
        quantize,
        run,
        save,
        session,
        to_onnx,
        verdicts,
        view,
    )
    from xdlc.errors import XdlcError
    from xdlc.ir import Model
    from xdlc.runtime.vendor_errors import explain

__version__ = VERSION

__all__ = [
    "Model",
    "RunOptions",
    "Session",
    "XdlcError",
    "__version__",
    "annotate",
    "batch",
    "check",
    "compare",
    "convert",
    "cost",
    "debug",
    "diff",
    "explain",
    "export_binary",
    "export_encodings",
    "export_epcontext",
    "link",
    "load",
    "prepare",
    "prepare_hta",
    "preprocess",
    "quantize",
    "run",
    "save",
    "session",
    "to_onnx",
    "verdicts",
    "view",
]

_HOMES = dict.fromkeys(__all__, "xdlc.api") | {"Model": "xdlc.ir", "XdlcError": "xdlc.errors"}
_HOMES["explain"] = "xdlc.runtime.vendor_errors"
if not TYPE_CHECKING:  # checkers of types would take any name
    __getattr__ = names_of(__name__, _HOMES)

# These packages have names of verbs.  They are loaded by the imports above, so that no later import of their
# modules binds the name.
for _verb in ("compare", "cost", "debug", "diff", "prepare", "view"):
    del globals()[_verb]


def __dir__() -> list[str]:
    return sorted(__all__)
