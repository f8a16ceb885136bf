"""Bundles: written, read again, and refused when they are damaged."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.bundles import CONTEXT, facts_of, parts_with_graphs, small_bundle, small_decoder, written
from xdlc.errors import XdlcError, each_problem
from xdlc.ir import raw_data
from xdlc.llm.bundle import CONFIG, EXTENSIONS, FACTS, FORM, TOKENIZER, genie_config, read_bundle
from xdlc.llm.decoder import Rope

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def test_a_bundle_is_read_as_it_was_written(tmp_path: Path) -> None:
    decoder = small_decoder(rope_scaling=LLAMA3)
    facts = facts_of(
        decoder,
        bos=1,
        eos=(2, 3),
        chat_template="{{ messages }}" * (1 << 17),  # which checkpoints may have, of 4 MiB at most
        checks=("a",),
        shorter_contexts=(12, 9),
    )
    new = written(
        tmp_path / "new" / "bundle",
        facts,
        parts_with_graphs(decoder, (1,), shorter=(12, 9)),
        binaries={"sm8650": [raw_data(b"one"), raw_data(b"two")]},
        is_shared=True,
        tokenizer=b"{}",
    )
    bundle = read_bundle(new.folder)
    assert bundle.facts.chat_template == facts.chat_template
    assert bundle.parts == new.parts
    assert bundle.targets == new.targets
    assert bundle.facts.rope is not None
    assert bundle.facts.rope.frequencies(CONTEXT) == decoder.rope.frequencies(CONTEXT)  # type: ignore[union-attr]
    assert (bundle.facts.bos, bundle.facts.eos) == (1, (2, 3))
    assert bundle.facts.shorter_contexts == (12, 9)
    folder = bundle.folder / "sm8650"
    assert (folder / "decoder_2_of_2.bin").read_bytes() == b"two"
    assert (folder / TOKENIZER).read_bytes() == b"{}"
    dialog = json.loads((folder / CONFIG).read_text())["dialog"]
    assert dialog["context"] == {
        "version": 1, "size": CONTEXT, "n-vocab": 96, "bos-token": 1, "eos-token": [2, 3],
    }  # fmt: skip
    engine = dialog["engine"]
    assert engine["model"]["binary"]["ctx-bins"] == ["decoder_1_of_2.bin", "decoder_2_of_2.bin"]
    scaling = engine["model"]["positional-encoding"]["rope-scaling"]
    assert scaling == {name.replace("_", "-"): value for name, value in LLAMA3.items()}
    assert json.loads((folder / EXTENSIONS).read_text())["devices"][0]["soc_model"] == 57
    readme = (bundle.folder / "README.md").read_text()
    assert "sm8650" in readme
    assert all(f"values of {span} tokens" in readme for span in (CONTEXT, 12, 9))


@pytest.mark.parametrize(
    ("rope", "expected"),
    [
        (None, {"type": "absolute"}),
        (Rope(1e6, 8), {"type": "rope", "rope-dim": 4, "rope-theta": 1e6}),
        (
            Rope(1e4, 4, "longrope", {
                "short_factor": [1.0, 1.5], "long_factor": [2.0, 2.5],
                "original_max_position_embeddings": 32, "attention_factor": 2**0.5,
            }),
            {"type": "rope", "rope-dim": 2, "rope-theta": 1e4, "rope-scaling": {
                "rope-type": "longrope", "factor": pytest.approx(32.0),
                "original-max-position-embeddings": 32,
                "short-factor": [1.0, 1.5], "long-factor": [2.0, 2.5],
            }},
        ),
    ],
)  # fmt: skip
def test_positions_of_the_configuration(rope: Rope | None, expected: dict[str, Any]) -> None:
    from dataclasses import replace

    config = genie_config(replace(facts_of(small_decoder()), rope=rope), ["a.bin"])
    assert config["dialog"]["engine"]["model"]["positional-encoding"] == expected


def fact(name: str, value: Any) -> Callable[[Any], None]:
    def change(record: Any) -> None:
        record["facts"][name] = value

    return change


def gone(record: Any) -> None:
    del record["facts"]["vocab"], record["facts"]["context"]


DAMAGES: dict[str, tuple[Callable[[Any], Any], int]] = {
    "no facts": (lambda record: record.pop("facts"), 1),
    "missing facts": (gone, 2),
    "a fact that is null": (fact("vocab", None), 1),
    "unknown fact": (fact("temperature", 1), 1),
    "text for a number": (fact("layers", "2"), 1),
    "text for contexts": (fact("shorter_contexts", ["x"]), 1),
    "a longer context": (fact("shorter_contexts", [CONTEXT]), 1),
    "too many tokens": (fact("vocab", 1 << 40), 1),
    "nothing left of the context": (fact("prompt_tokens", CONTEXT), 1),
    "no rope": (fact("rope", {"theta": -1.0, "dim": 3, "scaling": "default", "facts": {}}), 1),
    "unknown scaling": (fact("rope", {"theta": 1.0, "dim": 4, "scaling": "yarn", "facts": {}}), 1),
    "short factors": (
        fact("rope", {"theta": 1.0, "dim": 4, "scaling": "longrope", "facts": {
            "short_factor": [1.0], "long_factor": [1.0, 1.0],
            "original_max_position_embeddings": 1, "attention_factor": 1e9}}),
        3,
    ),
    "too many parts": (lambda record: record.update(parts=1 << 30), 1),
    "a tokenizer that is text": (lambda record: record.update(has_tokenizer="x"), 1),
    "an unknown SoC": (lambda record: record.update(targets={"../x": {"is_shared": True}}), 1),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_record_is_refused(damage: str, tmp_path: Path) -> None:
    change, count = DAMAGES[damage]
    small_bundle(tmp_path)
    record = json.loads((tmp_path / FACTS).read_text())
    change(record)
    (tmp_path / FACTS).write_text(json.dumps(record))
    with pytest.raises(XdlcError) as caught:
        read_bundle(tmp_path)
    assert len(each_problem(caught.value)) >= count


@pytest.mark.parametrize(("form", "age"), [(None, "older"), (FORM + 1, "newer"), ("x", "older")])
def test_a_bundle_of_another_release_is_named(form: Any, age: str, tmp_path: Path) -> None:
    small_bundle(tmp_path)
    record = json.loads((tmp_path / FACTS).read_text())
    record["form"] = form
    if form is None:
        del record["form"]
    (tmp_path / FACTS).write_text(json.dumps(record))
    with pytest.raises(XdlcError, match=age) as caught:
        read_bundle(tmp_path)
    assert "xdlc llm build" in str(caught.value.fix)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b'"a"', b"[" * 100_000, b" " * (2 << 20)])
def test_what_is_no_record_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / FACTS).write_bytes(content)
    with pytest.raises(XdlcError):
        read_bundle(tmp_path)
    with pytest.raises(XdlcError):
        read_bundle(tmp_path / "missing")
