"""Models with UDOs for tests of the quantizer: definitions, graphs, kernels."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.support import accuracy
from tests.support.custom_ops import place
from xdlc.container import udo
from xdlc.ir import Model, Op, Tensor, f32, make_op
from xdlc.ir.dtype import BY_NAME, FLOAT32, INT32, DType
from xdlc.opdefs.model import Collection, OpDef, SupplementOp, SupplementTable, SupplementTensor
from xdlc.runtime.cpu import CpuSession
from xdlc.runtime.udo import Kernels

Sample = Mapping[str, Any]
SAMPLES = [{"x": np.random.default_rng(seed).standard_normal((1, 6, 6, 4)).astype("f4")} for seed in range(8)]

KERNELS = '''
"""Kernels of the package Pkg."""

import numpy as np

from xdlc.udo import kernel


def gain(inputs, params, outputs):
    data, weight = inputs
    assert data.dtype == weight.dtype == np.float32
    return data * weight * np.float32(params.get("factor", 1.0))


for name in ("Gain", "Softmax", "Conv2d", "Relu", "FullyConnected"):
    kernel("Pkg", name)(gain)


@kernel("Pkg", "Top")
def top(inputs, params, outputs):
    (data,) = inputs
    return data.max(axis=-1, keepdims=True), data.argmax(axis=-1).astype(np.int32)
'''


def defined(model: Model, type: str = "Gain", *, package: str = "Pkg", **types: str) -> Model:
    """Store a definition in a model, with types of its tensors on the DSP.

    On the CPU each tensor is float32.

    Args:
        model: The model; changed.
        type: Type of the ops.
        package: Their package.
        types: Types on the DSP by place, like ``uint8|uint16``, or behind ``=`` on all cores; ``w`` is
            static, ``y`` and ``i`` are outputs.
    """
    outputs = [name for name in types if name in ("y", "i")]
    inputs = [name for name in types if name not in outputs]

    def dtypes(text: str) -> tuple[DType, ...]:
        return tuple(BY_NAME[word] for word in text.split("|"))

    def rows(names: Sequence[str], core: str) -> dict[str, SupplementTensor]:
        held = {name: types[name] for name in names if not types[name].startswith("=")}
        if core == "CPU":
            held = dict.fromkeys(held, "float32")
        return {name: SupplementTensor(name, dtypes(text)) for name, text in held.items()}

    def own(name: str) -> tuple[DType, ...]:
        return dtypes(types[name][1:]) if types[name].startswith("=") else ()

    def table(core: str) -> SupplementTable:
        row = SupplementOp(type, rows(inputs, core), rows(outputs, core), {})
        return SupplementTable(core, frozenset({type}), {type: (row,)})

    opdef = OpDef(
        type,
        package,
        tuple(place(name, own(name), is_static=name == "w") for name in inputs),
        tuple(place(name, own(name)) for name in outputs),
        {},
        backends=("CPU", "DSP"),
    )
    held = udo.definitions(model).get(package)
    before = held.opdefs if held is not None else ()
    tables = held.supplements if held is not None else ()
    collection = Collection(package, "d", "1", (*before, opdef), (*tables, table("CPU"), table("DSP")))
    udo.add_definitions(model, {package: collection})
    return model


def gain(net: Any, x: Tensor, name: str, *, type: str = "Gain", factor: float = 1.0) -> Tensor:
    """Append ``y = x * w * factor`` of package Pkg."""
    w = net.weights(f"{name}_w", x.shape[-1])
    y: Tensor = net.op(type, [x, w], x.shape, name, package="Pkg", factor=f32(factor))
    return y


def top(net: Any, x: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Append the largest value and its index of package Pkg."""
    value = Tensor(name, (*x.shape[:-1], 1), FLOAT32)
    index = Tensor(f"{name}_index", x.shape[:-1], INT32)
    net.graph.append(make_op(net.graph, "Top", [x], [value, index], name=f"{name}_op", package="Pkg"))
    return value, index


def sandwich(net: Any, type: str = "Gain", **types: str) -> Model:
    """Return conv, relu, ``Gain``, conv; the types are those of x, w and y on the DSP."""
    n = net(1, 6, 6, 4)
    a = n.neuron(n.conv(n.x, 8, "a"), 4, "r")
    g = gain(n, a, "g", type=type, factor=0.5)
    model: Model = n.done(n.conv(g, 4, "out"))
    return defined(model, type, **(types or {"x": "uint8|uint16", "w": "ufixed8", "y": "uint8|uint16"}))


def op(model: Model, name: str) -> Op:
    """Return the op of a name."""
    (found,) = [op for op in model.main.ops if op.name == name]
    return found


def types(model: Model, name: str) -> tuple[list[DType], list[DType]]:
    """Return the types of what an op reads and writes."""
    held = op(model, name)
    return [t.dtype for t in held.inputs if t is not None], [t.dtype for t in held.outputs]


def results(kernels: Path, model: Model, samples: Sequence[Sample]) -> list[Sample]:
    """Return what a model gives for samples."""
    with Kernels(kernels, model=model) as held:
        session = CpuSession(model, kernels=held)
        return [session.run(sample) for sample in samples]


def quality(kernels: Path, model: Model, made: Model, samples: Sequence[Sample], name: str) -> float:
    """Return the SQNR in dB of an output; one process runs both models."""
    with Kernels(kernels, model=made) as held:
        wanted, found = (CpuSession(one, kernels=held) for one in (model, made))
        return sqnr([wanted.run(one) for one in samples], [found.run(one) for one in samples], name)


def sqnr(wanted: Sequence[Sample], found: Sequence[Sample], name: str) -> float:
    """Return the SQNR of an output in dB, pooled over samples."""
    return accuracy.sqnr([one[name] for one in wanted], [one[name] for one in found])


def values_of(kernels: Path, model: Model, name: str) -> list[Sample]:
    """Return what a float model gives for the samples, a tensor inside among it."""
    with Kernels(kernels, model=model) as held:
        session = CpuSession(model, quantized=False, outputs=[name], kernels=held)
        return [session.run(sample) for sample in SAMPLES]
