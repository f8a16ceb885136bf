"""Writing a model, or what it holds, for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xdlc.api.models import executable
from xdlc.api.options import PathLike, check_options
from xdlc.ir import Model


def to_onnx(model: Model | PathLike, path: PathLike, **options: Any) -> tuple[Path, ...]:
    """Write a model as an ONNX file that onnxruntime runs, and return the paths of the files written.

    Args:
        model: The model, or the path of a DLC.
        path: The ONNX file.
        **options: Flags of ``xdlc-to-onnx`` under their names: ``encodings="qdq"``, ``external_data=True``...

    Raises:
        UsageError: If an option, or the graph that it names, is not known.
        UnsupportedOp: If operations have no form in ONNX; all of them are listed.
        StorageError: If a file cannot be read or written.
    """
    from xdlc.runtime.export import export

    check_options("to_onnx", export, options)
    return export(executable(model), path, **options)


def export_encodings(model: Model | PathLike, path: PathLike, version: str = "1.0.0") -> Path:
    """Write the encodings of a quantized model as JSON, under the names of the source, and return the path.

    What is written can be given to ``quantize`` as ``quantization_overrides``.

    Args:
        model: The quantized model, or the path of a DLC.
        path: The file.
        version: Form: the vendor's and AIMET's 0.4.0 to 0.6.1, or AIMET's 1.0.0 and 2.0.0.

    Raises:
        UsageError: If there is no such version, or it has no form for an encoding.
        StorageError: If the file cannot be written.
    """
    from xdlc.quant.overrides import save_encodings

    return save_encodings(executable(model), path, version)
