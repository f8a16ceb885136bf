"""Export of a decoder of transformers with the inputs and outputs of libGenie.

    python export_decoder.py FOLDER OUTPUT
    xdlc-llm build OUTPUT/decoder.pt2 -o bundle

FOLDER is that of a checkpoint, or its name on Hugging Face.  The layers are transformers' own, so families
that xdlc does not know are exported too: those whose layers are ``model.layers``, and whose rotary positions
turn element i with element i + half.  Windows of attention, and factors of embeddings or logits outside of
the layers, are not exported.
"""

import sys
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any

import torch
from torch.export import Dim
from transformers import AutoModelForCausalLM, AutoTokenizer


class Caches:
    """Keys and values in the layout of libGenie, as layers of transformers call their cache."""

    def __init__(self, past: dict[str, Any]) -> None:
        self.past = past
        self.new: dict[str, Any] = {}

    def update(self, key: Any, value: Any, layer: int, *_rest: Any, **_more: Any) -> tuple[Any, Any]:
        """Keep new keys and values; return them after the past ones."""
        self.new[f"past_key_{layer}_out"] = key.permute(1, 0, 3, 2)
        self.new[f"past_value_{layer}_out"] = value.permute(1, 0, 2, 3)
        keys = self.past[f"past_key_{layer}_in"].permute(1, 0, 3, 2)
        values = self.past[f"past_value_{layer}_in"].permute(1, 0, 2, 3)
        return torch.cat([keys, key], 2), torch.cat([values, value], 2)


class Decoder(torch.nn.Module):
    """A network of transformers with other inputs and outputs."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, input_ids: Any, attention_mask: Any, position_ids_cos: Any, position_ids_sin: Any, **past: Any
    ) -> dict[str, Any]:
        """Return logits, and the keys and values of the tokens."""
        model, caches = self.network.model, Caches(past)
        angles = tuple(torch.cat([half[0]] * 2, -1) for half in (position_ids_cos, position_ids_sin))
        stream = model.embed_tokens(input_ids)
        for layer in model.layers:
            result = layer(
                stream,
                attention_mask=attention_mask,
                position_embeddings=angles,
                past_key_values=caches,
                use_cache=True,
            )
            stream = result[0] if isinstance(result, tuple) else result
        return {"logits": self.network.lm_head(model.norm(stream)), **caches.new}


def export(network: Any, path: Path, least: int = 1) -> None:
    """Write the program of a network.

    Args:
        network: The network, with ``attn_implementation="eager"``.
        path: The file.
        least: Fewest tokens that it processes at a time.
    """
    config, pairs = network.config, network.model.rotary_emb.inv_freq.numel()
    heads = config.num_key_value_heads
    dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    tokens, before = Dim("tokens", min=least), Dim("past", min=1)
    angles = [torch.zeros(1, 1, 8, pairs) for _ in range(2)]  # the exporter joins inputs that are one tensor
    past, sizes = {}, {}
    for layer in range(config.num_hidden_layers):
        past[f"past_key_{layer}_in"] = torch.zeros(heads, 1, dim, 16)
        past[f"past_value_{layer}_in"] = torch.zeros(heads, 1, 16, dim)
        sizes |= {f"past_key_{layer}_in": {3: before}, f"past_value_{layer}_in": {2: before}}
    names = ["self", "input_ids", "attention_mask", "position_ids_cos", "position_ids_sin", *past]
    forward: Any = Decoder.forward  # whose inputs are named after parameters
    forward.__signature__ = Signature(
        [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names],
    )
    program = torch.export.export(
        Decoder(network.eval()),
        (torch.zeros(1, 8, dtype=torch.int32), torch.zeros(1, 1, 8, 24), *angles),
        past,
        dynamic_shapes={
            "input_ids": {1: tokens},
            "attention_mask": {2: tokens, 3: Dim.AUTO},
            "position_ids_cos": {2: tokens},
            "position_ids_sin": {2: tokens},
            **sizes,
        },
    )
    torch.export.save(program, path)
    config.save_pretrained(path.parent)
    network.generation_config.save_pretrained(path.parent)


if __name__ == "__main__":
    source, output = sys.argv[1], Path(sys.argv[2])
    output.mkdir(parents=True, exist_ok=True)
    export(
        AutoModelForCausalLM.from_pretrained(source, dtype="float32", attn_implementation="eager"),
        output / "decoder.pt2",
    )
    AutoTokenizer.from_pretrained(source).save_pretrained(output)
