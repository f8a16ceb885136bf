"""Rules of the vendor's runtime: a fault of each kind is refused at its tensor."""

from collections.abc import Callable

import pytest

from tests.support.bundles import parts_with_graphs, small_decoder
from xdlc.errors import ConstraintError, XdlcError, each_problem
from xdlc.ir import Model, ScaleOffset, Tensor
from xdlc.ir import dtype as dt
from xdlc.llm.genie_rules import check_genie
from xdlc.llm.layout import ports


def tensors(parts: list[Model], name: str) -> list[Tensor]:
    """Return the inputs and outputs of a name, of all graphs."""
    graphs = [graph for part in parts for graph in part.graphs.values()]
    return [ports(graph)[name] for graph in graphs if name in ports(graph)]


def stored(parts: list[Model], name: str, dtype: dt.DType, scale: float, offset: int) -> None:
    for tensor in tensors(parts, name):
        tensor.dtype, tensor.encoding = dtype, ScaleOffset(scale, offset)


def caches(parts: list[Model], dtype: dt.DType = dt.UFIXED8, offset: int = -128) -> None:
    for layer in range(2):
        for role in ("key", "value"):
            for side in ("in", "out"):
                stored(parts, f"past_{role}_{layer}_{side}", dtype, 0.01, offset)


def rename(old: str, new: str) -> Callable[[list[Model]], None]:
    def apply(parts: list[Model]) -> None:
        for part in parts:
            for graph in part.graphs.values():
                if old in ports(graph):
                    graph.rename(graph.tensors[old], new)

    return apply


def untied(parts: list[Model]) -> None:
    caches(parts, dt.UFIXED16, -32768)
    stored(parts, "past_key_1_out", dt.UFIXED16, 0.02, -32768)


def apart(parts: list[Model]) -> None:
    stored(parts, "attention_mask", dt.UFIXED16, 0.001, -65535)
    tensors(parts, "attention_mask")[0].encoding = ScaleOffset(0.002, -65535)


def half(parts: list[Model]) -> None:
    caches(parts, dt.UFIXED16, -32768)
    stored(parts, "past_key_0_in", dt.UFIXED8, 0.01, -128)


def wide_ids(parts: list[Model]) -> None:
    for tensor in tensors(parts, "input_ids"):
        tensor.dtype = dt.INT64


def turned(parts: list[Model]) -> None:
    for tensor in tensors(parts, "past_value_0_in"):
        tensor.shape = (*tensor.shape[:2], *tensor.shape[:1:-1])


def joint(parts: list[Model]) -> None:
    reads = [tensor for tensor in parts[1].main.inputs if tensor.name == "hidden_1"]
    stored(parts, "hidden_1", dt.UFIXED16, 0.001, -32768)
    reads[0].encoding = ScaleOffset(0.003, -32768)


def twice(parts: list[Model]) -> None:
    parts[:] = parts_with_graphs(small_decoder(), (1,), prompt=8, context=16)


def contexts(parts: list[Model]) -> None:
    parts[1:] = parts_with_graphs(small_decoder(), (1,), context=32)[1:]


def short(parts: list[Model]) -> None:
    parts[:] = parts_with_graphs(small_decoder(), (1,), shorter=(9,))
    del parts[1].graphs["prompt_ar4_cl9_2_of_2"]


def lengths(parts: list[Model]) -> None:
    del parts[1].graphs[next(iter(parts[1].graphs))]


FAULTS: dict[str, tuple[Callable[[list[Model]], None], str]] = {
    "caches without one encoding": (untied, "past_key_1_in"),
    "graphs quantized apart": (apart, "attention_mask"),
    "one side of a cache at 8 bits": (half, "past_key_0_in"),
    "ids of 64 bits": (wide_ids, "input_ids"),
    "other ids": (rename("input_ids", "tokens"), "input_ids"),
    "other logits": (rename("logits", "output"), "logits"),
    "other mask": (rename("attention_mask", "mask"), "attention_mask"),
    "other cosines": (rename("position_ids_cos", "cos"), "position_ids_cos"),
    "other cache input": (rename("past_key_0_in", "k0"), "past_key_0_out"),
    "other cache output": (rename("past_key_0_out", "past_key_0_next"), "past_key_0_in"),
    "zero of caches": (lambda parts: caches(parts, offset=-125), "past_key_0_in"),
    "values with keys' layout": (turned, "past_value_0_in"),
    "parts with other encodings": (joint, "hidden_1"),
    "as many past tokens as new ones": (twice, "8"),
    "parts of other contexts": (contexts, "24, 32"),
    "parts of other lengths": (lengths, "part 2"),
    "a context without a prompt": (short, "part 2"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_refused(fault: str) -> None:
    parts = parts_with_graphs(small_decoder(), (1,))
    break_rule, place = FAULTS[fault]
    break_rule(parts)
    with pytest.raises(XdlcError) as caught:
        check_genie(parts)
    problems = each_problem(caught.value)
    assert any(place in str(problem) for problem in problems)
    assert all(isinstance(problem, ConstraintError) and problem.fix for problem in problems)


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3_text"])
@pytest.mark.parametrize("borders", [(), (1,), (1, 2)])
def test_decoders_keep_the_rules(family: str, borders: tuple[int, ...]) -> None:
    parts = parts_with_graphs(small_decoder(family), borders)
    check_genie(parts)
    caches(parts)
    check_genie(parts)
    caches(parts, dt.SFIXED8, 0)
    check_genie(parts)


@pytest.mark.parametrize("borders", [(), (1, 2)])
def test_decoders_of_several_contexts_keep_the_rules(borders: tuple[int, ...]) -> None:
    check_genie(parts_with_graphs(small_decoder(), borders, shorter=(16, 9)))


def test_parts_are_checked_alone() -> None:
    parts = parts_with_graphs(small_decoder(), (1,))
    for part in parts:
        check_genie([part])
    rename("logits", "output")(parts)
    check_genie(parts[:1])
    with pytest.raises(XdlcError):
        check_genie(parts[1:])
