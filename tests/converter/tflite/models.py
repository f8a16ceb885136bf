"""Small TFLite models, written in code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import xdlc
from xdlc.container.flatbuffer_encode import encode
from xdlc.converter.tflite.file import CUSTOM, NAMES, options_of
from xdlc.converter.tflite.tensors import DTYPES, PACKED
from xdlc.schema._generated import tflite as schema

NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


def _stored(array: np.ndarray[Any, Any]) -> bytes:
    bits = PACKED.get(array.dtype.name)
    if bits is None:
        return array.tobytes()
    fields = array.astype(np.int8).view(np.uint8).reshape(-1) & ((1 << bits) - 1)
    fields = np.append(fields, np.zeros(-fields.size % (8 // bits), np.uint8)).reshape(-1, 8 // bits)
    return bytes((fields << np.arange(0, 8, bits)).sum(1).astype(np.uint8))


class TinyModel:
    """Builds a model: ``tensor`` and ``op`` add to it, ``write`` writes the file."""

    def __init__(self) -> None:
        self.buffers = [schema.Buffer()]
        self.codes: list[Any] = []
        self.graphs: list[Any] = []
        self.begin()

    def begin(self) -> int:
        """Begin another sub-graph; return its index."""
        self.graph = schema.SubGraph(tensors=[], inputs=[], outputs=[], operators=[])
        self.graphs.append(self.graph)
        return len(self.graphs) - 1

    def tensor(
        self,
        name: str,
        shape: Sequence[int] = (),
        dtype: Any = np.float32,
        data: Any = None,
        scale: Any = None,
        zero: Any = 0,
        axis: int = 0,
        **fields: Any,
    ) -> int:
        """Add a tensor, a constant if it has data; return its index."""
        buffer = 0
        if data is not None:
            array = np.asarray(data, dtype)
            shape = array.shape
            buffer = len(self.buffers)
            self.buffers.append(schema.Buffer(data=_stored(array)))
        quantization = None
        if scale is not None:
            scales = np.atleast_1d(np.asarray(scale, np.float32))
            zeros = np.broadcast_to(np.atleast_1d(zero), scales.shape)
            quantization = schema.QuantizationParameters(
                scale=scales.tolist(), zero_point=zeros.tolist(), quantized_dimension=axis
            )
        fields.setdefault("has_rank", not shape)
        self.graph.tensors.append(
            schema.Tensor(
                name=name,
                shape=list(shape),
                type=NUMBERS[np.dtype(dtype)],
                buffer=buffer,
                quantization=quantization,
                **fields,
            )
        )
        return len(self.graph.tensors) - 1

    def op(
        self,
        type: str,
        inputs: Sequence[int],
        outputs: Sequence[int],
        custom_options: bytes | None = None,
        intermediates: Sequence[int] = (),
        **options: Any,
    ) -> None:
        """Add an operator; a name that is no builtin is a custom one."""
        if type in NAMES:
            number = NAMES.index(type)
            code = schema.OperatorCode(builtin_code=number, deprecated_builtin_code=min(number, 127))
        else:
            code = schema.OperatorCode(builtin_code=CUSTOM, deprecated_builtin_code=CUSTOM, custom_code=type)
        self.codes.append(code)
        fields: dict[str, Any] = {}
        options_type = options_of(type)
        for suffix, union in (("", schema.BuiltinOptions), ("2", schema.BuiltinOptions2)):
            number = next((key for key, held in union.items() if held is options_type), 0)
            if options_type is not None and number and options:
                fields |= {
                    f"builtin_options{suffix}_type": number,
                    f"builtin_options{suffix}": options_type(**options),
                }
        self.graph.operators.append(
            schema.Operator(
                opcode_index=len(self.codes) - 1,
                inputs=list(inputs),
                outputs=list(outputs),
                custom_options=custom_options,
                intermediates=list(intermediates) or None,
                **fields,
            )
        )

    def build(self) -> Any:
        """Return the root table."""
        return schema.Model(version=3, operator_codes=self.codes, subgraphs=self.graphs, buffers=self.buffers)

    def write(self, path: Path, inputs: Sequence[int] = (), outputs: Sequence[int] = ()) -> Path:
        """Write the model; inputs and outputs are those of the first sub-graph."""
        if inputs or outputs:
            self.graphs[0].inputs, self.graphs[0].outputs = list(inputs), list(outputs)
        path.write_bytes(encode(self.build()))
        return path


def converted(
    path: Path,
    op: str,
    given: Sequence[Any],
    outs: Sequence[Any],
    constants: Sequence[int] = (),
    bodies: Callable[[TinyModel], None] = lambda _: None,
    **options: Any,
) -> tuple[xdlc.Model, dict[str, Any]]:
    """Convert a model of one operator; inputs in ``constants`` are stored."""
    builder, feeds = TinyModel(), {}
    inputs, graph_inputs = list[int](), list[int]()
    for place, value in enumerate(given):
        if value is None:
            inputs.append(-1)
        elif place in constants:
            inputs.append(builder.tensor(f"c{place}", dtype=value.dtype, data=value))
        else:
            inputs.append(builder.tensor(f"x{place}", value.shape, value.dtype))
            graph_inputs.append(inputs[-1])
            feeds[f"x{place}"] = value
    outputs = [builder.tensor(f"y{place}", *out, has_rank=True) for place, out in enumerate(outs)]
    builder.op(op, inputs, outputs, **options)
    bodies(builder)
    return xdlc.convert(builder.write(path / "m.tflite", graph_inputs, outputs)), feeds


def check(
    path: Path,
    want: Any,
    op: str,
    given: Sequence[Any],
    constants: Sequence[int] = (),
    rtol: float = 1e-5,
    **options: Any,
) -> xdlc.Model:
    """Compare the results of an operator, converted as above, with arrays."""
    expected = [np.asarray(each) for each in (want if isinstance(want, list) else [want])]
    outs = [(each.shape, each.dtype) for each in expected]
    model, feeds = converted(path, op, given, outs, constants, **options)
    results = xdlc.run(model, feeds)
    for place, each in enumerate(expected):
        assert results[f"y{place}"].shape == each.shape
        np.testing.assert_allclose(results[f"y{place}"], each, rtol=rtol, atol=1e-6)
    return model
