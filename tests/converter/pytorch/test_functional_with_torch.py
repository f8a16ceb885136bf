"""Functional form of random programs with views and changes, against torch itself."""

from __future__ import annotations

import random
from typing import Any

import pytest

from xdlc.converter.pytorch.calls import REQUIRED, Call, CallGraph, Meta, Ref, ScalarType, schema
from xdlc.converter.pytorch.functional import functional
from xdlc.errors import UnsupportedOp

pytestmark = pytest.mark.frameworks


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def axis(rng: random.Random, x: Any) -> int:
    return rng.randrange(-x.dim(), x.dim())


def cut(rng: random.Random, size: int) -> tuple[int, int]:
    begin = rng.randrange(size)
    return begin, rng.randint(begin + 1, size)


def shaped(rng: random.Random, x: Any) -> list[int]:
    return rng.choice(
        [[-1], [1, *x.shape], [x.numel()], [2, -1] if x.numel() % 2 == 0 else [-1], list(x.shape)]
    )


def sliced(rng: random.Random, x: Any) -> dict[str, Any]:
    dim = axis(rng, x)
    begin, end = cut(rng, x.shape[dim])
    return {"dim": dim, "start": rng.choice([begin, None]), "end": end, "step": rng.choice([1, 2])}


def parts(rng: random.Random, x: Any) -> dict[str, Any]:
    dim = axis(rng, x)
    begin, end = cut(rng, x.shape[dim])
    return {"dim": dim, "split_sizes": [begin, end - begin, x.shape[dim] - end]}


VIEWS = {
    "view": lambda r, x: {"size": shaped(r, x)},
    "reshape": lambda r, x: {"shape": shaped(r, x)},
    "flatten.using_ints": lambda r, x: {"start_dim": 0, "end_dim": axis(r, x)},
    "select.int": lambda r, x: {"dim": (d := axis(r, x)), "index": r.randrange(-x.shape[d], x.shape[d])},
    "slice.Tensor": sliced,
    "narrow": lambda r, x: {"dim": (d := axis(r, x)), "start": -1, "length": min(1, x.shape[d])},
    "transpose.int": lambda r, x: {"dim0": axis(r, x), "dim1": axis(r, x)},
    "permute": lambda r, x: {"dims": r.sample(range(x.dim()), x.dim())},
    "movedim.intlist": lambda r, x: {
        "source": (d := r.sample(range(x.dim()), x.dim()))[:2],
        "destination": d[::-1][:2],
    },
    "numpy_T": lambda r, x: {},
    "unsqueeze": lambda r, x: {"dim": axis(r, x)},
    "squeeze": lambda r, x: {},
    "expand": lambda r, x: {"size": list(x.shape)},
    "diagonal": lambda r, x: {"offset": 0, "dim1": 0, "dim2": 1 if x.dim() > 1 else 0},
    "split_with_sizes": parts,
    "chunk": lambda r, x: {"chunks": r.randint(1, 3), "dim": axis(r, x)},
    "tensor_split.sections": lambda r, x: {"sections": r.randint(1, 3), "dim": axis(r, x)},
    "unbind.int": lambda r, x: {"dim": axis(r, x)},
    "contiguous": lambda r, x: {},
    "detach": lambda r, x: {},
    "dropout": lambda r, x: {"p": 0.5, "train": False},
    "to.dtype": lambda r, x: {"dtype": x.dtype, "copy": r.random() < 0.3},
    "type_as": lambda r, x: {"other": x},
    "clone": lambda r, x: {},
}
CHANGES = {
    "add_.Scalar": lambda r, x: {"other": r.randint(1, 9)},
    "mul_.Tensor": lambda r, x: {"other": x.flatten()[-1].clone()},
    "neg_": lambda r, x: {},
    "fill_.Scalar": lambda r, x: {"value": r.randint(1, 9)},
    "copy_": lambda r, x: {"src": x.flip(0) if x.dim() else x * 2},
    "zero_": lambda r, x: {},
    "relu_": lambda r, x: {},
    "unsqueeze_": lambda r, x: {"dim": axis(r, x)},
    "squeeze_": lambda r, x: {},
    "t_": lambda r, x: {},
}
AS_RESHAPE = {"view", "view_as", "_unsafe_view"}


def called(torch: Any, target: str, arguments: dict[str, Any]) -> Any:
    """Return the results of an operator; views of functional values may be copies."""
    name, _, overload = target.removeprefix("aten.").partition(".")
    if name in AS_RESHAPE:
        shape = arguments["other"].shape if name == "view_as" else arguments["size"]
        return arguments["self"].reshape(shape)
    return getattr(getattr(torch.ops.aten, name), overload or "default")(**arguments)


def meta(torch: Any, value: Any) -> Meta:
    number = ScalarType(4 if value.dtype == torch.int64 else 6)
    return Meta(number, tuple(value.shape), tuple(value.stride()))


def program(torch: Any, seed: int) -> tuple[CallGraph, dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Return a random program, inputs before and after, and its last tensors."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    inputs = {"x": torch.randint(-9, 9, (4, 3, 2)).float(), "y": torch.randint(-9, 9, (6, 4)).float()}
    before = {name: value.clone() for name, value in inputs.items()}
    tensors = dict(inputs)
    graph = CallGraph(list(inputs), [], [], {name: meta(torch, value) for name, value in inputs.items()})
    for step in range(14):
        name = rng.choice(list(tensors))
        x = tensors[name]
        table = CHANGES if rng.random() < 0.4 else VIEWS
        operator = rng.choice(list(table))
        if x.numel() == 0 or (x.dim() == 0 and table is VIEWS):
            continue
        if operator in ("t_", "squeeze_", "unsqueeze_") and any(x is tensors[one] for one in graph.inputs):
            continue  # the shape of an input itself
        try:
            options = table[operator](rng, x)
            viewed = schema(operator)[0].name
            result = (
                called(torch, operator, {viewed: x, **options})
                if operator != "view"
                else x.view(options["size"])
            )
        except (RuntimeError, IndexError, ValueError):
            continue
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        names = [f"v{step}_{index}" for index in range(len(outputs))]
        arguments = {each.name: each.default for each in schema(operator) if each.default is not REQUIRED}
        for key, value in options.items():
            if isinstance(value, torch.Tensor):
                place = f"c{step}_{key}"
                same = next((one for one, other in tensors.items() if other is value), None)
                if same is None:
                    tensors[place], before[place] = value, value.clone()
                    graph.inputs.append(place)
                    graph.values[place] = meta(torch, value)
                options[key] = Ref(same or place)
        graph.calls.append(Call(f"aten.{operator}", arguments | {viewed: Ref(name)} | options, names))
        for output, value in zip(names, outputs, strict=True):
            tensors[output] = torch.ops.aten.alias(value) if value is x and table is VIEWS else value
            graph.values[output] = meta(torch, value)
    graph.outputs = [Ref(name) for name in tensors]
    return graph, before, {name: tensors[name] for name in graph.inputs}, tensors


def interpreted(torch: Any, graph: CallGraph, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return all values of a functional graph, whose operators must change nothing."""
    values = {name: value.clone() for name, value in inputs.items()}

    def resolved(value: Any) -> Any:
        if isinstance(value, Ref):
            return values[value]
        return [resolved(item) for item in value] if isinstance(value, list) else value

    for call in graph.calls:
        versions = {name: value._version for name, value in values.items()}
        result = called(torch, call.target, {key: resolved(value) for key, value in call.arguments.items()})
        outputs = list(result) if isinstance(result, tuple | list) else [result]
        assert versions == {name: values[name]._version for name in versions}, call
        assert not set(call.outputs) & set(values)
        values.update((name, value.clone()) for name, value in zip(call.outputs, outputs, strict=True))
        for name in call.outputs:
            assert graph.values[name].sizes == tuple(values[name].shape), call
    return values


def test_random_programs(torch):
    refused = 0
    for seed in range(400):
        graph, before, after, expected = program(torch, seed)
        try:
            form = functional(graph)
        except UnsupportedOp:
            refused += 1
            continue
        values = interpreted(torch, form.graph, before)
        for output, (name, wanted) in zip(form.graph.outputs, expected.items(), strict=True):
            assert torch.equal(values[output], wanted), (seed, name)
        for name, wanted in after.items():
            assert torch.equal(values[form.written.get(name, name)], wanted), (seed, name)
    assert refused < 4
