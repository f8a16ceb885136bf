"""``xdlc-llm`` on a small bundle."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from tests.support.bundles import (
    facts_of,
    parts_with_graphs,
    small_bundle,
    small_decoder,
    tokenizer_json,
    written,
)
from tests.support.commands import invoke as run_tool
from xdlc.cli.tools import llm
from xdlc.errors import UsageError


def invoke(*words: object, code: int = 0, text: str | None = None) -> Result:
    return run_tool(llm.main, *words, code=code, input=text)


def with_tokenizer(folder: Path, **more: Any) -> Path:
    pytest.importorskip("tokenizers")
    decoder = small_decoder()
    facts = facts_of(decoder, **more)
    written(folder, facts, parts_with_graphs(decoder), tokenizer=tokenizer_json())
    return folder


def test_run_prints_the_tokens_that_follow(tmp_path: Path) -> None:
    small_bundle(tmp_path)
    words = ["run", tmp_path, "--tokens", "5,17,80", "--max_new_tokens", 4, "--engine", "host"]
    result = invoke(*words, "--profile")
    tokens = result.stdout.split()
    assert len(tokens) == 4
    assert "3 tokens" in result.stderr
    sampled = [invoke(*words, "--temperature", 9, "--seed", seed).stdout for seed in (1, 1, 2)]
    assert sampled[0] == sampled[1] != sampled[2]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--prompt", "a", "--tokens", "1"],
        ["--tokens", "1,x"],
        ["--tokens", "99"],
        ["--prompt", "a"],
        ["--tokens", "1", "--engine", "genie"],
    ],
)
def test_run_refuses_what_it_cannot_run(words: list[str], tmp_path: Path) -> None:
    small_bundle(tmp_path)
    result = invoke("run", tmp_path, *words, code=UsageError.exit_code)
    assert "fix:" in result.stderr


@pytest.mark.frameworks
def test_texts_are_continued_and_answered(tmp_path: Path) -> None:
    folder = with_tokenizer(tmp_path, bos=1, chat_template="{{ messages[-1]['content'] }} w9")
    options = ["--max_new_tokens", 3, "--engine", "host"]
    text = invoke("run", folder, "--prompt", "w5 w17", *options).stdout
    ids = invoke("run", folder, "--tokens", "1,5,17", *options).stdout.split()
    assert text.split() == [f"w{token}" for token in ids]
    said = invoke("chat", folder, *options, text="w5 w17\n\nw5\n").stdout.splitlines()
    ids = invoke("run", folder, "--tokens", "1,5,17,9", *options).stdout.split()
    assert said[0].split() == [f"w{token}" for token in ids]
    assert len(said) == 2


@pytest.mark.frameworks
def test_a_full_context_drops_the_oldest_turns(tmp_path: Path) -> None:
    folder = with_tokenizer(tmp_path)
    options = ["--max_new_tokens", 4, "--engine", "host"]
    lines = ["w5 w17 w8 w5 w4 w3", "w3 w4 w6 w7", "w9 w10 w11"]
    chat = invoke("chat", folder, "--system", "w2", *options, text="\n".join(lines))
    answers = chat.stdout.splitlines()
    assert "1 oldest" in chat.stderr
    text = " ".join(["w2", lines[1], answers[1], lines[2]])
    assert invoke("run", folder, "--prompt", text, *options).stdout.strip() == answers[2]
    long = " ".join(["w5"] * 30)
    assert "context" in invoke("chat", folder, *options, text=long, code=UsageError.exit_code).stderr


@pytest.mark.frameworks
def test_eval_compares_engines_and_bundles(tmp_path: Path) -> None:
    folder = with_tokenizer(tmp_path / "bundle")
    (tmp_path / "text").write_text("w5 w17 w80 w3 w42 w9 w61 w1 w2")
    words = ["eval", folder, "--text", tmp_path / "text", "--window", 5, "--reference", folder]
    rows = invoke(*words).stdout.splitlines()
    assert [row.split()[0] for row in rows[3:]] == ["reference", "float", "host"]
    assert all(row.split()[2:4] == ["1.0000", "100.0"] for row in rows[3:])


@pytest.mark.frameworks
def test_eval_compares_on_the_shorter_context_and_refuses_other_tokens(tmp_path: Path) -> None:
    decoder = small_decoder()
    folder, text = with_tokenizer(tmp_path / "bundle"), tmp_path / "text"
    text.write_text("w5 w17 w80 w3 w42 w9 w61 w1 w2 w8 w7 w6 w5 w4 w3")
    facts = facts_of(decoder, context=12)
    written(tmp_path / "short", facts, parts_with_graphs(decoder, context=12))
    rows = invoke("eval", folder, "--text", text, "--reference", tmp_path / "short").stdout.splitlines()
    assert all(row.split()[2:4] == ["1.0000", "100.0"] for row in rows[3:])
    few = small_decoder(vocab_size=64)
    written(tmp_path / "few", facts_of(few), parts_with_graphs(few))
    words = ["eval", folder, "--text", text, "--reference", tmp_path / "few"]
    invoke(*words, code=UsageError.exit_code)


def test_check_refuses_a_bundle_without_binaries(tmp_path: Path) -> None:
    small_bundle(tmp_path)
    invoke("check", tmp_path, code=UsageError.exit_code)


@pytest.mark.parametrize("contexts", ["512,x", "", "-1"])
def test_build_refuses_other_than_numbers_of_tokens(contexts: str, tmp_path: Path) -> None:
    words = ["build", tmp_path, "-o", tmp_path / "bundle", "--context", contexts]
    assert "--context" in invoke(*words, code=UsageError.exit_code).stderr
