"""Quantizing a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from xdlc.api.models import executable
from xdlc.api.options import Array, PathLike
from xdlc.ir import Model


def quantize(
    model: Model | PathLike, samples: Iterable[Mapping[str, Array] | Array] | PathLike, **options: Any
) -> Model:
    """Return a quantized copy of a float model.

    Args:
        model: The model, or the path of a DLC.
        samples: Input arrays by name, one mapping per calibration sample, read in order; arrays will do
            for a model with one input.  Or the path of an .npz file with an array for each input, of an
            .npy file for the only one, both with samples along the first axis, or of an input list.
        **options: Flags of ``xdlc-quant`` under their names: ``weights_bitwidth=8``, ``act_bitwidth=8``...

    Raises:
        UsageError: If an option is not known, or a sample does not fit the model's inputs.
    """
    from xdlc.quant import quantize as quantize_model

    return quantize_model(executable(model), samples, **options)
