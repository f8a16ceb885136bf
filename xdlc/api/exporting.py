"""Writing a model, or what it holds, for other tools."""

from __future__ import annotations

from pathlib import Path

from xdlc.api.models import executable
from xdlc.api.options import PathLike, verb
from xdlc.ir import Model


@verb
def to_onnx(
    model: Model | PathLike,
    path: PathLike,
    *,
    graph: str | None = None,
    encodings: str = "qdq",
    external_data: bool = False,
) -> tuple[Path, ...]:
    """Write a model as an ONNX file that onnxruntime runs, and return the paths of the files written.

    Args:
        model: The model, or the path of a DLC.
        path: The ONNX file.
        graph: Name of the graph to write; default: the first.
        encodings: ``qdq`` for QuantizeLinear and DequantizeLinear nodes, ``aimet`` for a float model and a
            file of encodings beside it, ``none`` for a float model.
        external_data: Write weights to a file of their own; always so from 2 GiB on.

    Raises:
        UsageError: If an option, or the graph that it names, is not known.
        UnsupportedOp: If operations have no form in ONNX; all of them are listed.
        StorageError: If a file cannot be read or written.
    """
    from xdlc.runtime.export import export

    return export(executable(model), path, graph=graph, encodings=encodings, external_data=external_data)


@verb
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
