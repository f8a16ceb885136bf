"""Networks of transformers in memory."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.llm.checkpoint.test_families import network
from tests.support.bundles import tokenizer_json
from xdlc import llm
from xdlc.errors import ModelError, UnsupportedOp, UsageError
from xdlc.llm.checkpoint import open_checkpoint
from xdlc.llm.checkpoint.texts import texts_of

OPTIONS: dict[str, Any] = {"targets": (), "context": 48, "prompt_tokens": 16}


@pytest.mark.frameworks
@pytest.mark.parametrize(
    ("family", "dtype"), [("llama", "bfloat16"), ("gpt2", "float32"), ("phi3", "float64")]
)
def test_a_module_is_built_as_its_folder(tmp_path: Path, family: str, dtype: str) -> None:
    torch = pytest.importorskip("torch")
    module = network(family).to(getattr(torch, dtype))
    folder = tmp_path / "source"
    module.save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes(tokenizer_json())
    saved = llm.build(folder, tmp_path / "saved", **OPTIONS)
    live = llm.build(module, tmp_path / "live", tokenizer=folder, **OPTIONS)
    assert live.facts == saved.facts
    names = sorted(path.name for path in saved.folder.iterdir() if path.name != "README.md")
    for name in names:
        assert (live.folder / name).read_bytes() == (saved.folder / name).read_bytes(), name


@pytest.mark.frameworks
def test_parameters_of_a_module_are_not_copied() -> None:
    pytest.importorskip("torch")
    module = network("llama")
    weight = open_checkpoint(module).weights["model.layers.0.mlp.up_proj.weight"]
    address = weight.data.numpy().__array_interface__["data"][0]
    assert address == module.model.layers[0].mlp.up_proj.weight.data_ptr()


@pytest.mark.frameworks
def test_modules_that_are_no_decoders_are_refused() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(UsageError):
        open_checkpoint(torch.nn.Linear(2, 2))
    with pytest.raises(UnsupportedOp, match="embed_tokens"):
        open_checkpoint(network("llama").to("meta"))


def test_a_tokenizer_has_several_forms(tmp_path: Path) -> None:
    content = tokenizer_json()
    (tmp_path / "tokenizer.json").write_bytes(content)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ x }}"}))
    backend = SimpleNamespace(to_str=content.decode)
    live = SimpleNamespace(backend_tokenizer=backend, chat_template="{{ x }}")
    for form in (live, tmp_path, tmp_path / "tokenizer.json", str(tmp_path)):
        texts = texts_of(form)
        assert (texts.tokenizer, texts.chat_template) == (content, "{{ x }}")
    assert texts_of(content).chat_template is None
    with pytest.raises(UsageError):
        texts_of(3)
    with pytest.raises(UsageError):
        texts_of(tmp_path / "missing.json")
    with pytest.raises(ModelError):
        texts_of(b"{}")
