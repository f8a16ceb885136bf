"""What converters store in a model beside its graph: encodings, the type of floats, texts of the user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from xdlc.api.options import Notify, PathLike, verb
from xdlc.container.metadata import add_step
from xdlc.errors import UsageError
from xdlc.ir import Graph, Model
from xdlc.ir.files import read_bytes

if TYPE_CHECKING:
    from xdlc.quant.overrides.importing import Source

LONGEST_VERSION = 64
LONGEST_COPYRIGHT = 1 << 16
"""Bytes of the texts, in UTF-8."""


@verb
def annotate(
    model: Model,
    *,
    quantization_overrides: Source | None = None,
    override_missing: str = "error",
    strip_encodings: bool = False,
    remove_unused_inputs: bool = False,
    float_bitwidth: int = 32,
    preserve_io_datatype: Sequence[str] | None = None,
    model_version: str | None = None,
    copyright_file: PathLike | None = None,
    notify: Notify | None = None,
) -> Model:
    """Store encodings, the type of floats and texts in a model that was converted, and return it.

    Args:
        model: The model, which is changed.
        quantization_overrides: File of encodings, or what it holds; the quantizer follows them.
        strip_encodings: Make a float model of a quantized one first, with the values of its weights and no
            encodings; the result is a copy.
        remove_unused_inputs: Remove inputs that no op reads and that are no outputs.
        override_missing: What a name that matches nothing is: ``error`` or ``warn``.
        float_bitwidth: 32, or 16 to store and compute with float16 between inputs and outputs.
        preserve_io_datatype: Quantized inputs and outputs that become float32, by name; all if it is empty.
        model_version: Version of the network, at most 64 bytes.
        copyright_file: File with the text of a copyright, at most 64 KiB.
        notify: Receives notices.

    Raises:
        UsageError: If encodings match no tensor or do not fit, or a text is too long.
        ModelError: If the encodings of weights cannot be used.
        StorageError: If a file cannot be read.
    """
    texts: dict[str, str] = {}
    if model_version is not None:
        texts["model_version"] = _checked(str(model_version), LONGEST_VERSION, "model_version")
    if copyright_file is not None:
        texts["model_copyright"] = _text(Path(copyright_file))
    if strip_encodings:
        from xdlc.quant.requantize import float_model

        model, count = float_model(model)
        texts["encodings"] = f"{count} stripped"
    if remove_unused_inputs:
        texts["removed_inputs"] = " ".join(_remove_unused(model.main)) or "none"
    if quantization_overrides is not None:
        from xdlc.quant.overrides.importing import store

        texts["quantization_overrides"] = store(model, quantization_overrides, override_missing, notify)
    if float_bitwidth != 32:
        from xdlc.quant.float_types import store_floats

        if float_bitwidth != 16:
            fix = "choose 32 or 16"
            raise UsageError(f"expected 32 or 16, found {float_bitwidth!r}", where="float_bitwidth", fix=fix)
        for graph in model.graphs.values():
            store_floats(graph, float_bitwidth)
        texts["float_bitwidth"] = str(float_bitwidth)
    if preserve_io_datatype is not None:
        from xdlc.boundary.datatype import set_types

        types = dict.fromkeys(preserve_io_datatype, "float32")
        set_types(model, not types, types, "preserve_io_datatype")
        texts["preserve_io_datatype"] = " ".join(preserve_io_datatype) or "all"
    history = model.metadata.get("history") or [{}]
    args = history[-1].get("args")
    if isinstance(args, dict):
        args.update(texts)
    elif texts:
        add_step(model, "xdlc.annotate", texts)
    return model


def _remove_unused(graph: Graph) -> list[str]:
    """Remove inputs that nothing reads; return their names."""
    unused = [
        tensor for tensor in graph.inputs if not graph.consumers(tensor) and not graph.is_output(tensor)
    ]
    for tensor in unused:
        graph.inputs.remove(tensor)
        del graph.tensors[tensor.name]
    return [tensor.name for tensor in unused]


def _text(path: Path) -> str:
    data = read_bytes(path, LONGEST_COPYRIGHT)
    return _checked(data.decode("utf-8", "replace"), LONGEST_COPYRIGHT, str(path))


def _checked(text: str, most: int, where: str) -> str:
    if len(text.encode("utf-8", "surrogatepass")) > most:
        raise UsageError(f"is longer than {most} bytes", where=where, fix="shorten it")
    return text
