"""Every family as folder and as GGUF file, with the logits of transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.llm.test_network import CLASSES, TOKENS
from tests.support import gguf_files
from tests.support.decoders import Stepper, config_of, whole_models
from xdlc.llm.checkpoint import Checkpoint, open_checkpoint
from xdlc.llm.decoder import read_decoder
from xdlc.llm.layout import Length
from xdlc.llm.network import check_parameters

Array = Any
ROWS = ("q_proj.weight", "k_proj.weight", "q_proj.bias", "k_proj.bias")
SPLIT = {
    "attn.c_attn": "attn_qkv",
    "attn.c_proj": "attn_output",
    "mlp.c_fc": "ffn_up",
    "mlp.c_proj": "ffn_down",
}
PLAIN = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "input_layernorm": "attn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    **SPLIT,
    "ln_1": "attn_norm",
    "ln_2": "ffn_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
OUTER = {
    "model.embed_tokens": "token_embd",
    "transformer.wte": "token_embd",
    "transformer.wpe": "position_embd",
    "model.norm": "output_norm",
    "transformer.ln_f": "output_norm",
    "lm_head": "output",
}
"""Names of gguf-py's tensor_mapping.py."""
SANDWICH = ("gemma2", "gemma3_text", "olmo2")


def network(family: str, **keys: Any) -> Any:
    """Return a random model of transformers."""
    import torch
    import transformers

    name = CLASSES[family]
    config_class = getattr(transformers, "Gemma3TextConfig" if name == "Gemma3" else f"{name}Config")
    sizes = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 16, "n_embd": 64}
    stated = config_of(family, **keys)
    stated = {key: sizes.get(key, value) for key, value in stated.items() if key != "model_type"}
    if family == "gpt2":
        stated["n_inner"] = 256
    torch.manual_seed(0)
    config = config_class(**stated, initializer_range=0.2, attn_implementation="eager", pad_token_id=0)
    model = getattr(transformers, "GPT2LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM")(
        config
    ).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter += 0.2 * torch.randn_like(parameter)
    return model


def gguf_of(model: Any, q8: bool) -> bytes:
    """Return the GGUF file that llama.cpp's converter writes of a model."""
    config, family = model.config, model.config.model_type
    arch = {"gemma3_text": "gemma3", "mistral": "llama"}.get(family, family)
    heads = {"q": config.num_attention_heads, "k": getattr(config, "num_key_value_heads", 0)}
    tensors: dict[str, Any] = {}
    for name, parameter in model.named_parameters():
        array, (base, _, end) = parameter.detach().numpy(), name.rpartition(".")
        if arch in ("llama", "granite", "smollm3") and name.endswith(ROWS):
            count = heads[base.rpartition(".")[2][0]]
            halves = array.reshape(count, 2, len(array) // count // 2, *array.shape[1:])
            array = halves.swapaxes(1, 2).reshape(array.shape)
        if arch.startswith("gemma") and base.endswith("norm"):
            array = array + 1
        if arch == "gpt2" and base.endswith(tuple(SPLIT)):
            array = array.T
        new = OUTER.get(base)
        if new is None:
            number, _, part = base.split(".layers." if ".layers." in base else ".h.")[1].partition(".")
            after = "post_attention_norm" if family in SANDWICH else "ffn_norm"
            new = f"blk.{number}." + (after if part == "post_attention_layernorm" else PLAIN[part])
        packs = q8 and array.ndim == 2 and array.shape[1] % 32 == 0
        raw = (array.shape, gguf_files.Q8_0, gguf_files.q8_0(array)) if packs else array
        tensors[f"{new}.{end}"] = raw
    rope = getattr(config, "rope_parameters", None) or {}
    full, local = rope.get("full_attention", rope), rope.get("sliding_attention")
    epsilon = getattr(config, "rms_norm_eps", None) or config.layer_norm_epsilon
    more = {
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": heads["k"] or config.num_attention_heads,
        "attention.layer_norm_rms_epsilon": epsilon,
        "attention.layer_norm_epsilon": epsilon,
        "embedding_length": config.hidden_size,
        "feed_forward_length": getattr(config, "intermediate_size", None) or config.n_inner,
        "context_length": config.max_position_embeddings,
        "rope.freq_base": float(full.get("rope_theta", 1e4)),
        "rope.freq_base_swa": float(local["rope_theta"]) if local else None,
        "attention.key_length": getattr(config, "head_dim", None),
        "attention.sliding_window": getattr(config, "sliding_window", None) if "gemma" in arch else None,
        "attn_logit_softcapping": getattr(config, "attn_logit_softcapping", None),
        "final_logit_softcapping": getattr(config, "final_logit_softcapping", None),
        "attention.scale": getattr(config, "attention_multiplier", None),
        "embedding_scale": getattr(config, "embedding_multiplier", None),
        "residual_scale": getattr(config, "residual_multiplier", None),
        "logit_scale": getattr(config, "logits_scaling", None),
    }
    stated = {key: value for key, value in more.items() if value is not None}
    return gguf_files.gguf(gguf_files.decoder(arch, config.num_hidden_layers, **stated), tensors)


def logits_of(checkpoint: Checkpoint) -> Array:
    """Return the logits of a checkpoint, all parameters of which are read."""
    decoder = read_decoder(checkpoint.config)
    assert check_parameters(decoder, checkpoint.weights) == []
    stepper = Stepper(decoder, whole_models(decoder, checkpoint.weights, [Length(4, 16), Length(1, 16)]))
    return np.concatenate([stepper.step(step) for step in (TOKENS[:4], TOKENS[4:7], TOKENS[7:8])])


def expected(model: Any) -> Array:
    import torch

    with torch.no_grad():
        return model(torch.tensor([TOKENS[:8]])).logits[0].numpy()


@pytest.mark.frameworks
@pytest.mark.parametrize("family", CLASSES)
def test_folder_and_gguf(tmp_path: Path, family: str) -> None:
    import torch

    keys: dict[str, Any] = {"query_pre_attn_scalar": 16} if family in ("gemma2", "gemma3_text") else {}
    if family == "granite":
        keys = {"embedding_multiplier": 3.0, "attention_multiplier": 0.2, "residual_multiplier": 0.5}
    model = network(family, **keys)
    logits = expected(model)
    model.save_pretrained(tmp_path / "folder")
    close = {"rtol": 0, "atol": 1e-4 * np.abs(logits).max()}
    np.testing.assert_allclose(logits_of(open_checkpoint(tmp_path / "folder")), logits, **close)
    (tmp_path / "m.gguf").write_bytes(gguf_of(model, q8=False))
    np.testing.assert_allclose(logits_of(open_checkpoint(tmp_path / "m.gguf")), logits, **close)
    (tmp_path / "q.gguf").write_bytes(gguf_of(model, q8=True))
    rounded = open_checkpoint(tmp_path / "q.gguf")
    kept = [name for name, weight in rounded.weights.items() if weight.encoding is not None]
    assert len(kept) >= 2 * model.config.num_hidden_layers
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.from_numpy(rounded.weights[name].floats().numpy().copy()))
    logits = expected(model)
    np.testing.assert_allclose(logits_of(rounded), logits, **close)
