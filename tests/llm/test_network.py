"""Networks of decoders: their graphs among themselves, and against transformers."""

import math
from typing import Any

import numpy as np
import pytest

from tests.support.decoders import Stepper, config_of, random_weights, whole_models
from xdlc.errors import ProblemList, XdlcError
from xdlc.ir import ArrayData
from xdlc.llm.checkpoint import Weight
from xdlc.llm.decoder import FAMILIES, read_decoder
from xdlc.llm.layout import Length
from xdlc.llm.network import check_parameters, part_model, parts_of
from xdlc.llm.weights import Weights

TOKENS = [5, 17, 80, 3, 42, 9, 61, 30, 77, 8]


@pytest.mark.parametrize(
    ("family", "keys"),
    [
        ("llama", {}),
        ("gpt2", {}),
        ("gemma3_text", {"sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"]}),
    ],
)
def test_prompt_and_token_graphs_agree(family: str, keys: dict[str, Any]) -> None:
    decoder = read_decoder(config_of(family, **keys))
    models = whole_models(decoder, random_weights(decoder), [Length(4, 24), Length(1, 24)])
    together, alone = Stepper(decoder, models), Stepper(decoder, {Length(1, 24): models[Length(1, 24)]})
    logits = np.concatenate([together.step(TOKENS[start : start + 4]) for start in range(0, 8, 4)])
    single = np.concatenate([alone.step([token]) for token in TOKENS[:8]])
    np.testing.assert_allclose(logits, single, rtol=1e-4, atol=1e-4)


def test_a_window_hides_what_is_before_it() -> None:
    decoder = read_decoder(config_of("mistral", sliding_window=4, num_hidden_layers=1))
    weights = random_weights(decoder)
    models = whole_models(decoder, weights, [Length(1, 16)])
    first, second = Stepper(decoder, models), Stepper(decoder, models)
    for token in TOKENS[:2]:
        first.step([token])
    for token in TOKENS[2:4]:
        second.step([token])
    for token in TOKENS[4:7]:
        last = [stepper.step([token]) for stepper in (first, second)]
    assert np.abs(last[0] - last[1]).max() > 1e-3
    for token in TOKENS[7:8]:
        last = [stepper.step([token]) for stepper in (first, second)]
    assert np.abs(last[0] - last[1]).max() < 1e-5


def test_parts_join_to_the_whole() -> None:
    decoder = read_decoder(config_of("qwen3"))
    floats, length = Weights(random_weights(decoder)), Length(2, 8)
    names = [
        [tensor.name for tensor in (*model.main.inputs, *model.main.outputs) if "hidden" in tensor.name]
        for model in (part_model(decoder, floats, part, length) for part in parts_of(decoder, [1, 2]))
    ]
    assert names == [["hidden_1"], ["hidden_1", "hidden_2"], ["hidden_2"]]


def test_graphs_of_a_part_share_weights() -> None:
    decoder = read_decoder(config_of("llama"))
    floats, (part,) = Weights(random_weights(decoder)), parts_of(decoder, [])
    graphs = [part_model(decoder, floats, part, Length(tokens, 8)).main for tokens in (2, 1)]
    held = [
        {id(op.inputs[1].data) for op in graph.ops if op.type == "FullyConnected" and op.inputs[1]}
        for graph in graphs
    ]
    assert held[0] == held[1]
    assert [graph.name for graph in graphs] == ["prompt_ar2_cl8_1_of_1", "token_ar1_cl8_1_of_1"]


def test_all_faults_of_a_checkpoint_are_reported() -> None:
    decoder = read_decoder(config_of("llama"))
    weights = random_weights(decoder)
    del weights["model.norm.weight"]
    weights["lm_head.weight"] = Weight(ArrayData(np.zeros((3, 3), np.float32)))
    with pytest.raises(ProblemList) as caught:
        check_parameters(decoder, weights)
    assert len(caught.value.problems) == 2
    weights = random_weights(decoder)
    weights["model.layers.0.extra"] = weights["lm_head.weight"]
    assert check_parameters(decoder, weights) == ["model.layers.0.extra"]


LONGROPE = {"rope_type": "longrope", "short_factor": [1.0] * 4, "long_factor": [1.0] * 4}


@pytest.mark.parametrize(
    "keys",
    [
        {"model_type": "bert"},
        {"model_type": None},
        {"hidden_act": "mish"},
        {"hidden_size": "32"},
        {"hidden_size": 1 << 40},
        {"num_hidden_layers": 10**6},
        {"num_key_value_heads": 3},
        {"rope_theta": -1.0},
        {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}},
        {"rope_scaling": {"rope_type": "llama3", "factor": 2.0}},
        {"rope_scaling": {"rope_type": "longrope", "short_factor": [1], "long_factor": [1]}},
        {"rope_parameters": {"full_attention": 3, "rope_type": 4}},
        {"quantization_config": {"quant_method": "gptq"}},
        {"sliding_window": 8, "layer_types": ["linear_attention"] * 2, "model_type": "mistral"},
        {"no_rope_layers": [1]},
        {"rms_norm_eps": True},
        {"rms_norm_eps": 10**400},
        {"rope_theta": 10**400},
        {"rope_scaling": {"rope_type": ["llama3"]}},
        {"rope_scaling": {"rope_type": "linear", "factor": 10**400}},
        {"partial_rotary_factor": 0.001},
        {"rope_scaling": {**LONGROPE, "original_max_position_embeddings": 1}},
        {"rope_scaling": {**LONGROPE, "attention_factor": 0}},
        {"rope_scaling": {**LONGROPE, "attention_factor": 30.0}},
        {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 8, "max_window_layers": "1"},
    ],
)
def test_a_config_that_is_not_supported_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises(XdlcError):
        read_decoder({**config_of("llama"), **keys})


def test_factors_of_long_contexts() -> None:
    factors = {"short_factor": [1.0, 2.0, 2.0, 4.0], "long_factor": [2.0, 2.0, 4.0, 8.0]}
    scaling = {"rope_type": "longrope", **factors, "original_max_position_embeddings": 16}
    rope = read_decoder(config_of("phi3", rope_scaling=scaling)).rope
    assert rope is not None
    assert rope.frequencies(17)[0] == rope.frequencies(16)[0] / 2
    assert rope.magnitude == math.sqrt(1 + math.log(64 / 16) / math.log(16))
    stated = read_decoder(config_of("phi3", rope_scaling={**scaling, "attention_factor": 1.5})).rope
    assert stated is not None
    assert stated.magnitude == 1.5


def test_a_prompt_wider_than_a_window_is_refused() -> None:
    decoder = read_decoder(config_of("mistral", sliding_window=4))
    with pytest.raises(XdlcError):
        part_model(decoder, Weights(random_weights(decoder)), parts_of(decoder, [])[0], Length(5, 16))


CLASSES = {
    "llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3", "granite": "Granite",
    "smollm3": "SmolLM3", "gemma": "Gemma", "gemma2": "Gemma2", "gemma3_text": "Gemma3", "olmo2": "Olmo2",
    "phi3": "Phi3", "gpt2": "GPT2",
}  # fmt: skip
SCALED = {
    "llama3": {
        "rope_type": "llama3",
        "factor": 4.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
        "rope_theta": 10000.0,
    },
    "linear": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0},
}


@pytest.mark.frameworks
@pytest.mark.parametrize(
    ("family", "keys"),
    [
        *((family, {}) for family in FAMILIES),
        ("llama", {"rope_parameters": SCALED["llama3"], "tie_word_embeddings": True, "attention_bias": True}),
        ("qwen2", {"rope_parameters": SCALED["linear"]}),
        ("mistral", {"sliding_window": 6}),
        ("gemma2", {"sliding_window": 6}),
        ("gemma3_text", {"sliding_window": 6, "num_hidden_layers": 6}),
        ("phi3", {"partial_rotary_factor": 0.5}),
        ("granite", {"embedding_multiplier": 3.0, "attention_multiplier": 0.2, "residual_multiplier": 0.5,
                     "logits_scaling": 4.0}),
    ],
)  # fmt: skip
def test_logits_are_those_of_transformers(family: str, keys: dict[str, Any]) -> None:
    import torch
    import transformers

    name = CLASSES[family]
    made = getattr(transformers, "Gemma3TextConfig" if name == "Gemma3" else f"{name}Config")
    stated = {key: value for key, value in config_of(family, **keys).items() if key != "model_type"}
    torch.manual_seed(0)
    config = made(**stated, initializer_range=0.2, attn_implementation="eager", pad_token_id=0)
    head = "GPT2LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM"
    network = getattr(transformers, head)(config).eval()
    with torch.no_grad():
        for _, parameter in network.named_parameters():
            if parameter.ndim == 1:
                parameter += 0.2 * torch.randn_like(parameter)
        expected = network(torch.tensor([TOKENS])).logits[0].numpy()
    decoder = read_decoder({**config.to_dict(), "model_type": config.model_type})
    weights = {key: Weight(ArrayData(value.numpy())) for key, value in network.state_dict().items()}
    assert set(check_parameters(decoder, weights)) <= {"lm_head.weight"}
    models = whole_models(decoder, weights, [Length(4, 16), Length(1, 16)])
    stepper = Stepper(decoder, models)
    steps = [TOKENS[:4], TOKENS[4:7], *([token] for token in TOKENS[7:])]
    logits = np.concatenate([stepper.step(step) for step in steps])
    assert np.abs(logits - expected).max() <= 1e-4 * np.abs(expected).max()
