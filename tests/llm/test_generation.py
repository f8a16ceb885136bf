"""Generation by the graphs of small decoders, on the host."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.bundles import (
    CONTEXT,
    PROMPT,
    facts_of,
    parts_with_graphs,
    small_bundle,
    small_decoder,
    written,
)
from tests.support.decoders import Stepper, random_weights, whole_models
from xdlc.errors import ModelError, UsageError
from xdlc.ir import Graph
from xdlc.llm.evaluation import Evaluation, evaluate
from xdlc.llm.generation import Engine, Runner, Sampling, answer
from xdlc.llm.layout import Length
from xdlc.llm.running import begun, opened, runner_of

TEXT = [5, 17, 80, 3, 42, 9, 61]


def greedy(family: str, prompt: list[int], count: int) -> list[int]:
    """Return tokens that a graph of one token at a time chooses."""
    decoder = small_decoder(family)
    stepper = Stepper(decoder, whole_models(decoder, random_weights(decoder), [Length(1, CONTEXT)]))
    tokens = [*prompt]
    for place in range(len(prompt) + count - 1):
        logits = stepper.step([tokens[place]])[-1]
        if place + 1 >= len(prompt):
            tokens.append(int(logits.argmax()))
    return tokens[len(prompt) :]


@pytest.mark.parametrize(("family", "borders"), [("llama", ()), ("llama", (1,)), ("gpt2", (1,))])
def test_prompt_and_token_graphs_of_parts_choose_the_tokens_of_one_graph(
    family: str, borders: tuple[int, ...], tmp_path: Path
) -> None:
    bundle = small_bundle(tmp_path, family, borders)
    with opened(bundle, "host") as ask:
        assert list(ask(TEXT, 6)) == greedy(family, TEXT, 6)
        assert list(ask(TEXT[:3], 4)) == greedy(family, TEXT[:3], 4)


@pytest.mark.parametrize("family", ["llama", "gemma3_text"])
def test_an_answer_grows_out_of_a_short_context(family: str, tmp_path: Path) -> None:
    decoder = small_decoder(family)
    parts = parts_with_graphs(decoder, (1, 2), shorter=(9,))
    facts = facts_of(decoder, shorter_contexts=(9,))
    opened_graphs: list[str] = []
    with runner_of(written(tmp_path, facts, parts), "host") as runner:

        def open_graph(part: int, graph: Graph) -> Engine:
            opened_graphs.append(graph.name)
            return runner._open(part, graph)

        watched = Runner(parts, decoder.rope, open_graph)
        tokens = list(answer(watched, TEXT, 9, Sampling().chooser(), ()))
    assert tokens == greedy(family, TEXT, 9)
    assert [name for name in opened_graphs if "_1_of_" in name] == [
        "prompt_ar4_cl9_1_of_3", "token_ar1_cl9_1_of_3", "token_ar1_cl24_1_of_3",
    ]  # fmt: skip


def test_an_answer_ends_with_an_end_token_or_the_context(tmp_path: Path) -> None:
    expected = greedy("llama", TEXT, 6)
    first = expected.index(expected[3])
    with opened(small_bundle(tmp_path, eos=(expected[3],)), "host") as ask:
        assert list(ask(TEXT, 6)) == expected[:first]
    with opened(small_bundle(tmp_path), "host") as ask:
        assert len(list(ask(TEXT, 100))) == CONTEXT - len(TEXT) + 1


@pytest.mark.parametrize("tokens", [[], [96], [-1], [1] * (CONTEXT + 1)])
def test_tokens_that_no_graph_processes_are_refused(tokens: list[int], tmp_path: Path) -> None:
    with opened(small_bundle(tmp_path), "host") as ask, pytest.raises(UsageError):
        list(ask(tokens, 2))


def test_a_prompt_is_processed_only_where_it_differs(tmp_path: Path) -> None:
    fed: list[int] = []

    class Counting(Runner):
        def steps(self, tokens):  # type: ignore[no-untyped-def]
            fed.append(len(tokens))
            return super().steps(tokens)

    decoder = small_decoder()
    parts = parts_with_graphs(decoder)
    with runner_of(small_bundle(tmp_path), "host") as runner:
        counting = Counting(parts, decoder.rope, runner._open)
        choose = Sampling().chooser()
        whole = list(answer(counting, TEXT, 1, choose, ()))
        assert list(answer(counting, [*TEXT[:5], 1, 2], 1, choose, ())) != whole
        assert list(answer(counting, TEXT, 1, choose, ())) == whole
    assert fed == [7, 2, 2]


def test_sampling_keeps_to_its_limits_and_its_seed() -> None:
    logits = np.array([0.0, 3.0, 2.0, 1.0, -5.0])
    assert Sampling().chooser()(logits) == 1

    def drawn(**options: float) -> list[int]:
        choose = Sampling(**{"temperature": 1.0, **options}).chooser()  # type: ignore[arg-type]
        return [choose(logits) for _ in range(60)]

    assert drawn() == drawn()
    assert drawn(seed=1) != drawn(seed=2)
    assert set(drawn(top_k=2)) == {1, 2}
    assert set(drawn(top_p=0.6)) == {1}
    assert len(set(drawn(temperature=50.0))) == 5
    assert set(drawn(temperature=1e-310)) == {1}


def test_perplexity_follows_from_the_logits(tmp_path: Path) -> None:
    with runner_of(small_bundle(tmp_path), "host") as runner:
        result = evaluate(runner, TEXT, window=4)
        runner.rewind(0)
        logits = [row for part in (TEXT[:3], TEXT[4:6]) for row in (runner.rewind(0), runner.feed(part))[1]]
    following = [*TEXT[1:4], *TEXT[5:7]]
    shares = [np.exp(row - row.max()) for row in np.array(logits, np.float64)]
    losses = [-np.log(share[token] / share.sum()) for share, token in zip(shares, following, strict=True)]
    assert len(result.likeliest) == 5
    assert len(result.perplexities) == 2
    assert result.perplexity == pytest.approx(np.exp(np.mean(losses)))
    assert result.equality(result) == 1
    with pytest.raises(UsageError):
        evaluate(runner, TEXT, window=CONTEXT + 1)


def test_a_perplexity_that_no_float_has_is_infinite() -> None:
    near, far = (Evaluation(((loss,),), (1,)) for loss in (1.0, 1000.0))
    assert far.perplexity == far.ratio(near) == math.inf
    assert near.ratio(far) == 0


def test_a_text_begins_with_its_first_token_once(tmp_path: Path) -> None:
    facts = small_bundle(tmp_path, bos=7).facts
    assert begun([1, 2], facts) == begun([7, 1, 2], facts) == [7, 1, 2]
    assert begun([1], small_bundle(tmp_path).facts) == [1]


def test_a_bundle_with_a_part_of_another_decoder_is_refused(tmp_path: Path) -> None:
    (second,) = parts_with_graphs(small_decoder(), (1,))[1:]
    decoder = small_decoder()
    bundle = written(tmp_path, facts_of(decoder), [second])
    with pytest.raises(ModelError), opened(bundle, "host"):
        pass


def test_facts_of_other_rotary_positions_are_refused(tmp_path: Path) -> None:
    decoder = small_decoder()
    assert decoder.rope is not None
    for rope in (None, replace(decoder.rope, dim=2)):
        bundle = written(tmp_path, replace(facts_of(decoder), rope=rope), parts_with_graphs(decoder))
        with opened(bundle, "host") as ask, pytest.raises(ModelError):
            list(ask(TEXT, 2))


def test_parts_have_graphs_of_the_prompt_and_of_a_token() -> None:
    (part,) = parts_with_graphs(small_decoder())
    assert [*part.graphs] == [f"prompt_ar{PROMPT}_cl{CONTEXT}_1_of_1", f"token_ar1_cl{CONTEXT}_1_of_1"]
