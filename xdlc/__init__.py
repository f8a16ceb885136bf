"""Open toolchain for DLC model containers.

The verbs of the command line, in Python::

    report = xdlc.check("net.onnx", target="sm8650", input_dims={"x": (1, 3, 224, 224)})
    model = xdlc.convert("net.onnx", input_dims={"x": (1, 3, 224, 224)})
    quantized = xdlc.quantize(model, samples, weights_bitwidth=8, act_bitwidth=8)
    xdlc.prepare(quantized, socs=["sm8550", "sm8650"]).save("net.dlc")
    sections = xdlc.prepare_hta(quantized, "0-11").model
    [verdict.usable for verdict in xdlc.verdicts("net.dlc", "sm8450")]
    outputs = xdlc.run("net.dlc", {"x": image})
    xdlc.to_onnx("net.dlc", "net.onnx")

Importing this package loads none of the heavy libraries; the verbs do, when they are called.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any

import xdlc.prepare as _prepare_package
from xdlc.lazy import names_of
from xdlc.version import VERSION

if TYPE_CHECKING:
    from xdlc.api import (
        check,
        convert,
        export_encodings,
        load,
        prepare_hta,
        quantize,
        run,
        save,
        to_onnx,
        verdicts,
    )
    from xdlc.errors import XdlcError
    from xdlc.ir import Model

__version__ = VERSION

__all__ = [
    "Model",
    "XdlcError",
    "__version__",
    "check",
    "convert",
    "export_encodings",
    "load",
    "prepare",
    "prepare_hta",
    "quantize",
    "run",
    "save",
    "to_onnx",
    "verdicts",
]

_HOMES = dict.fromkeys(__all__, "xdlc.api") | {"Model": "xdlc.ir", "XdlcError": "xdlc.errors"}
__getattr__ = names_of(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _PreparePackage(ModuleType):
    """The package ``xdlc.prepare``, which is also the verb ``xdlc.prepare(...)``."""

    def __call__(self, *args: Any, **options: Any) -> Model:
        from xdlc.api import prepare

        return prepare(*args, **options)


_prepare_package.__class__ = _PreparePackage
