"""The vendor's runtime of language models, beside our own loop."""

from pathlib import Path

import pytest

from tests.support.bundles import facts_of, parts_with_graphs, small_decoder, tokenizer_json, written
from tests.support.htp_models import needs_htp
from xdlc.container.caches import caches
from xdlc.errors import BackendError, UsageError
from xdlc.ir import Model, TensorData
from xdlc.llm import genie
from xdlc.llm.bundle import Bundle, genie_config
from xdlc.llm.generation import Sampling
from xdlc.llm.running import agreement, opened
from xdlc.prepare.htp import prepare

TEXT = [(7 * token) % 96 for token in range(3, 43)]
KEYS = {
    "llama": {"max_position_embeddings": 128, "head_dim": 32},
    "gpt2": {"n_positions": 128, "n_embd": 128},
}
"""Smaller heads make the runtime on x86 choose other tokens."""
LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0] * 16,
    "long_factor": [1.0] * 16,
    "original_max_position_embeddings": 64,
    "attention_factor": 3.0,
}
"""Its attention factor is another one than the runtime computes of the lengths."""
LONG = (TEXT * 3)[:97]
SIZES = {"prompt": 32, "context": 128}
SHORT = 44
"""Tokens of another context, which the text and its answer exceed."""


def context_of(model: Model) -> TensorData:
    (cache,) = caches(prepare(model, ["sm8650"], verify=False))
    assert cache.data is not None
    return cache.data


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def bundle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    decoder = small_decoder(request.param, **KEYS[request.param])
    parts = parts_with_graphs(decoder, (1,), shorter=(SHORT,), **SIZES)
    binaries = {"sm8650": [*map(context_of, parts)]}
    folder, facts = tmp_path_factory.mktemp("bundle"), facts_of(decoder, shorter_contexts=(SHORT,), **SIZES)
    return written(folder, facts, parts, binaries=binaries, tokenizer=tokenizer_json())


@needs_htp
@pytest.mark.slow
def test_all_engines_choose_the_same_tokens(bundle: Bundle) -> None:
    answers = {}
    for engine in ("genie", "htp", "host", "float"):
        with opened(bundle, engine) as ask:
            answers[engine] = [list(ask(TEXT, 8)), list(ask(TEXT[:5], 4))]
    assert answers["genie"] == answers["htp"] == answers["host"] == answers["float"]
    assert len(answers["genie"][0]) == 8


@needs_htp
@pytest.mark.slow
def test_runtime_and_emulation_agree_or_an_error_states_it(bundle: Bundle, tmp_path: Path) -> None:
    assert "sm8650" in agreement(bundle, "sm8650", count=4)
    decoder = small_decoder()  # too small for the runtime on x86
    parts = parts_with_graphs(decoder)
    binaries = {"sm8650": [*map(context_of, parts)]}
    toy = written(tmp_path, facts_of(decoder), parts, binaries, tokenizer=tokenizer_json())
    with pytest.raises(BackendError):
        agreement(toy, "sm8650", count=4)


@needs_htp
@pytest.mark.slow
def test_an_answer_ends_with_the_context_and_a_longer_prompt_is_refused(bundle: Bundle) -> None:
    with opened(bundle, "genie", sampling=Sampling(temperature=0.7, top_k=5)) as ask:
        assert 0 < len(list(ask(LONG, 200))) <= SIZES["context"] - len(LONG) + 1
        with pytest.raises(UsageError):
            list(ask(TEXT * 4, 4))
        with pytest.raises(UsageError):
            list(ask([96], 4))
        first = ask(TEXT, 20)
        token = next(first)
        del first  # which ends an answer that is under way
        assert 0 <= token < 96
        assert len(list(ask(TEXT, 3))) == 3


@needs_htp
def test_what_the_runtime_refuses_is_an_error(tmp_path: Path) -> None:
    bad = genie_config(facts_of(small_decoder()), ["missing.bin"])
    with pytest.raises(BackendError):
        genie.Dialog(tmp_path, bad)
    bad["dialog"]["engine"]["other"] = 1
    with pytest.raises(BackendError, match="other"):
        genie.Dialog(tmp_path, bad)


@needs_htp
@pytest.mark.slow
def test_binaries_for_a_device_alone_are_compiled_anew(tmp_path: Path) -> None:
    decoder = small_decoder(num_hidden_layers=1, rope_scaling=LONGROPE, **KEYS["llama"])
    parts, notices = parts_with_graphs(decoder, **SIZES), list[str]()
    shared = written(
        tmp_path,
        facts_of(decoder, **SIZES),
        parts,
        binaries={"sm8650": [context_of(parts[0])]},
        is_shared=True,
        tokenizer=tokenizer_json(),
    )
    with opened(shared, notify=notices.append) as ask, opened(shared, "host") as ask_host:
        assert list(ask(TEXT, 4)) == list(ask_host(TEXT, 4))
    assert len(notices) == 1


def test_a_library_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(genie, "library_folder", lambda: tmp_path)
    assert not genie.is_installed()
    with pytest.raises(BackendError, match="libGenie"):
        genie.Dialog(tmp_path, {})
