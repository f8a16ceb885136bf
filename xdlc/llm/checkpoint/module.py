"""Networks of transformers in memory, as checkpoints."""

from __future__ import annotations

from typing import Any

from xdlc import ir
from xdlc.errors import UnsupportedOp, UsageError
from xdlc.llm.checkpoint.folder import assembled
from xdlc.llm.checkpoint.model import Checkpoint
from xdlc.llm.checkpoint.texts import Texts


def open_module(module: Any) -> Checkpoint:
    """Return the checkpoint of a network of transformers; parameters are views.

    Raises:
        UsageError: If it has no config of transformers.
        UnsupportedOp: If parameters have a type that is not supported.
    """
    name = type(module).__name__
    config: Any = getattr(module, "config", None)
    if not (hasattr(config, "to_dict") and hasattr(module, "state_dict")):
        raise UsageError(
            f"the {name} has no config of transformers",
            fix="save its program of torch.export as .pt2, and name the file (docs/guides/llm.md)",
        )
    settings: Any = getattr(module, "generation_config", None)
    texts = Texts(generation=settings.to_dict() if hasattr(settings, "to_dict") else {})
    tensors = {key: _data(tensor, key) for key, tensor in module.state_dict().items()}
    return assembled(f"the {name}", config.to_dict(), tensors, texts)


def _data(tensor: Any, name: str) -> ir.TensorData:
    """Return the values of a tensor of torch; bfloat16 and float64 as float32."""
    import ml_dtypes
    import numpy as np
    import torch

    try:
        plain = tensor.detach().cpu()
        if plain.dtype is torch.bfloat16:
            array = plain.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        else:
            array = plain.numpy()
    except (AttributeError, TypeError, RuntimeError) as error:
        # no tensor, float8, meta or quantized
        raise UnsupportedOp(
            f"its values cannot be read: {str(error)[:200]}",
            where=f"parameter {name!r}",
            fix="load the model on the CPU with bfloat16, float16 or float32 weights",
        ) from error
    data = ir.ArrayData(array)
    return data.cast(np.float32) if plain.dtype in (torch.bfloat16, torch.float64) else data
