"""TFLite models of an integer LSTM, with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.converter.tflite.models import TinyModel


def integer_lstm(
    path: Path,
    random: np.random.Generator,
    *,
    batch: int = 1,
    steps: int = 4,
    width: int = 5,
    units: int = 8,
    outputs: int = 0,
    cifg: bool = False,
    peephole: bool = False,
    normed: bool = False,
    type: str = "UNIDIRECTIONAL_SEQUENCE_LSTM",
    zero: int = 3,
    cell: int = -12,
    gain: float = 1.0,
    forget: float = 1.0,
    intermediates: int = 5,
    hidden_zero: int = -5,
    sums: float = 2.0**-11,
    **options: Any,
) -> Path:
    """Write a model of input x [batch, steps, width] and output y."""
    builder, out = TinyModel(), outputs or units
    once = type == "LSTM"
    x = builder.tensor("x", [batch, width] if once else [batch, steps, width], np.int8, scale=0.02, zero=zero)
    result = {"scale": 1 / 100 if outputs else 1 / 128, "zero": 4 if outputs else 0}
    y = builder.tensor("y", [batch, out] if once else [batch, steps, out], np.int8, **result)
    gates = "fco" if cifg else "ifco"

    def weight(name: str, shape: tuple[int, ...], scale: float, dtype: Any = np.int8) -> int:
        most = np.iinfo(dtype).max
        data = random.integers(-most, most + 1, shape)
        return builder.tensor(name, dtype=dtype, data=data, scale=scale / most)

    scales = {gate: gain * (1 + index / 8) / np.sqrt(width) for index, gate in enumerate(gates)}
    inputs = [x]
    inputs += [weight(f"w{g}", (units, width), scales[g]) if g in gates else -1 for g in "ifco"]
    most = 1.7 * gain / np.sqrt(out)
    inputs += [weight(f"r{g}", (units, out), most) if g in gates else -1 for g in "ifco"]
    inputs += [weight(f"p{g}", (units,), 0.5, np.int16) if peephole and g in gates else -1 for g in "ifo"]
    for g in "ifco":
        scale = 1.5 / 32767 / 1024 if normed else 0.02 * scales.get(g, 1) / 127
        bias = np.rint((random.normal(size=units) / 4 + forget * (g == "f")) / scale)
        inputs.append(builder.tensor(f"b{g}", dtype=np.int32, data=bias, scale=scale) if g in gates else -1)
    projection = weight("p", (out, units), 1.5 / np.sqrt(units)) if outputs else -1
    inputs.append(projection)
    bias = random.integers(-99, 99, out)
    inputs.append(builder.tensor("pb", dtype=np.int32, data=bias, scale=1e-4) if outputs else -1)
    inputs.append(builder.tensor("h", [batch, out], np.int8, is_variable=True, **result))
    inputs.append(builder.tensor("c", [batch, units], np.int16, scale=2.0**cell, is_variable=True))
    if normed:
        inputs += [weight(f"n{g}", (units,), 1.5, np.int16) if g in gates else -1 for g in "ifco"]
    between = [builder.tensor(f"s{g}", [], np.int16, scale=sums) for g in "ifco"]
    between.append(builder.tensor("hidden", [], np.int8, scale=1 / 128, zero=hidden_zero if outputs else 0))
    options = {"fused_activation_function": 4, **options}
    builder.op(type, inputs, [y], intermediates=between[:intermediates], **options)
    return builder.write(path, [x], [y])
