"""Tokenizers and chat templates in their child process."""

import json
from pathlib import Path

import pytest

from tests.support.bundles import tokenizer_json
from xdlc.errors import BackendError, ModelError, StorageError, UsageError
from xdlc.llm import tokenizer as client
from xdlc.llm.tokenizer import Tokenizer

needs_tokenizers = pytest.mark.frameworks
CHAT = (
    "{% for m in messages %}{{ bos_token }} {{ m['content'] }} {% endfor %}"
    "{% if add_generation_prompt %}w3{% endif %}"
)
MESSAGES = [{"role": "user", "content": "w5 w6"}]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    pytest.importorskip("tokenizers")
    path = tmp_path / "tokenizer.json"
    path.write_bytes(tokenizer_json())
    return path


@pytest.fixture
def bytes_file(tmp_path: Path) -> Path:
    """Return a tokenizer with a token for each byte."""
    tokenizers = pytest.importorskip("tokenizers")
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    whole = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            vocab={letter: number for number, letter in enumerate(sorted(alphabet))}, merges=[]
        )
    )
    whole.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    whole.decoder = tokenizers.decoders.ByteLevel()
    path = tmp_path / "bytes.json"
    whole.save(str(path))
    return path


@needs_tokenizers
def test_texts_become_tokens_and_come_back(file: Path) -> None:
    with Tokenizer(file, CHAT, {"bos_token": 1, "eos_token": 1000}) as tokenizer:
        assert tokenizer.vocab == 96
        assert tokenizer.encode("w5 w17 other") == [5, 17, 0]
        assert tokenizer.decode([5, 17]) == "w5 w17"
        with pytest.raises(UsageError):
            tokenizer.encode("w5 \udcff")
        assert tokenizer.conversation(MESSAGES) == [1, 5, 6, 3]
        assert "".join(tokenizer.pieces(iter([5, 6, 7]))) == "w5 w6 w7"
    with Tokenizer(file) as plain:
        assert plain.conversation(MESSAGES) == [5, 6]


@needs_tokenizers
def test_a_character_of_several_tokens_comes_whole(bytes_file: Path) -> None:
    with Tokenizer(bytes_file) as tokenizer:
        tokens = tokenizer.encode("naïve 🙂")
        pieces = list(tokenizer.pieces(iter(tokens)))
        cut = list(tokenizer.pieces(iter(tokens[:-1])))
    assert pieces == ["n", "a", "ï", "v", "e", " ", "🙂"]
    assert "".join(cut).startswith("naïve ")


@needs_tokenizers
def test_characters_of_bytes_follow_each_other(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    vocab = {"<unk>": 0, "a": 1} | {f"<0x{byte:02X}>": byte + 2 for byte in range(256)}
    whole = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab=vocab, merges=[], unk_token="<unk>", byte_fallback=True)
    )
    whole.decoder = tokenizers.decoders.Sequence(
        [tokenizers.decoders.ByteFallback(), tokenizers.decoders.Fuse()]
    )
    whole.save(str(tmp_path / "tokenizer.json"))
    with Tokenizer(tmp_path / "tokenizer.json") as tokenizer:
        tokens = tokenizer.encode("🙂é🙂a")
        assert len(tokens) == 11
        assert list(tokenizer.pieces(tokens)) == ["🙂", "é", "🙂", "a"]


@needs_tokenizers
def test_a_template_may_tell_the_date_and_mark_answers(file: Path) -> None:
    template = (
        "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}"
        " w{{ strftime_now('%m') | int }}"
    )
    with Tokenizer(file, template) as tokenizer:
        *content, month = tokenizer.conversation(MESSAGES)
    assert content == [5, 6]
    assert 1 <= month <= 12


@needs_tokenizers
@pytest.mark.parametrize(
    ("template", "kind"),
    [
        ("{{ raise_exception('no') }}", UsageError),
        ("{% for", ModelError),
        ("{{ messages.missing.member }}", ModelError),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", ModelError),
        ("{{ messages.append(1) }}", ModelError),
        ("{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}", ModelError),
        ("{{ 'a' * 100000000000 }}", BackendError),
        (
            "{% for a in range(99999) %}{% for b in range(99999) %}{% if a > 5 and b < 0 %}x{% endif %}"
            "{% endfor %}{% endfor %}",
            ModelError,
        ),
        ("{% for a in range(99999) %}{{ 'a' * 1000000 }}{% endfor %}", ModelError),
    ],
)
def test_a_template_that_is_hostile_ends_with_an_error(
    template: str, kind: type[Exception], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_RENDERING", 0.3)
    with Tokenizer(file, template) as tokenizer, pytest.raises(kind):
        tokenizer.conversation(MESSAGES)


@needs_tokenizers
@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 100_000, b"\xff\xfe", tokenizer_json()[:-20]])
def test_a_damaged_file_is_refused(content: bytes, file: Path) -> None:
    file.write_bytes(content)
    with pytest.raises(ModelError):
        Tokenizer(file)


def test_a_file_is_missing_or_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StorageError):
        Tokenizer(tmp_path / "missing.json")
    monkeypatch.setattr(client, "LONGEST", 10)
    (tmp_path / "large.json").write_text(json.dumps("a" * 20))
    with pytest.raises(StorageError):
        Tokenizer(tmp_path / "large.json")


def test_the_package_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shadow").mkdir()
    (tmp_path / "shadow" / "tokenizers.py").write_text("raise ImportError")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "shadow"))
    (tmp_path / "tokenizer.json").write_bytes(tokenizer_json())
    with pytest.raises(BackendError, match="tokenizers"):
        Tokenizer(tmp_path / "tokenizer.json")
