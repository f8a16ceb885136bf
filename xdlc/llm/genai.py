"""Pipelines with which onnxruntime-genai runs the context binaries of a bundle.

The runtime hands tokens, a row of zeros and ones for the context, and positions to a pipeline, keeps caches
of 8 bits with the newest token last, and pads a prompt on the left.  A first model on the CPU computes the
inputs of the context binaries of that, a last one makes logits floats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from xdlc.ir import Model, ScaleOffset, Tensor
from xdlc.ir.quantization import to_quantized
from xdlc.json_fields import json_bytes
from xdlc.llm.generation import mask_values, turned
from xdlc.llm.layout import COSINES, IDS, LOGITS, MASK, POSITIONS, SINES, Length, graph_of, graphs_of, ports
from xdlc.runtime.export.epcontext import context_model, element_type, onnx_model
from xdlc.targets import find_soc

if TYPE_CHECKING:
    from xdlc.llm.bundle import Facts

CONFIG = "genai_config.json"
_INPUTS, _OUTPUTS = "genai_inputs", "genai_logits"
_TOKENS, _SEEN, _PLACES, _SCORES = "token_ids", "seen_tokens", "places", "scores"
_PADDING = -1
"""Token of the padding; the runtime takes any that is in the vocabulary for padding in a prompt too."""
_ZERO = 128
"""Stored value of 0 in a cache of 8 bits."""
_LEFT = ("gemma3_text",)
"""Families whose graphs count past tokens, and expect them in front."""


def is_supported(facts: Facts, parts: Sequence[Model]) -> bool:
    """Return whether onnxruntime-genai can hand inputs to the graphs of a bundle."""
    fits = facts.prompt_tokens > 1 and 2 * facts.prompt_tokens <= facts.context
    has_tokens = all(any(length.tokens == 1 for length in graphs_of(part)) for part in parts)
    return facts.kv_bits == 8 and fits and has_tokens and facts.family not in _LEFT


def genai_files(
    facts: Facts, parts: Sequence[Model], binaries: Sequence[str], soc: str
) -> Mapping[str, bytes]:
    """Return the files of a pipeline by name, which lie beside the context binaries.

    Args:
        facts: Facts about the model, which ``is_supported`` accepts.
        parts: The models of the DLCs.
        binaries: Files of the context binaries, by part.
    """
    lengths = [Length(tokens, facts.context) for tokens in (facts.prompt_tokens, 1)]
    named: dict[str, Tensor] = {}
    for part in parts:
        named |= ports(graph_of(graphs_of(part), lengths[1]))
    stages = [_Stage(_INPUTS, _inputs(facts, named))]
    for length in lengths:
        runs = {"run_on_prompt": length.tokens > 1, "run_on_token_gen": length.tokens == 1}
        for part, binary in zip(parts, binaries, strict=True):
            graph = graph_of(graphs_of(part), length)
            stages.append(_Stage(graph.name, context_model(graph, binary), runs))
    stages.append(_Stage(_OUTPUTS, _outputs(named[LOGITS]), {"is_lm_head": True}))
    files = {stage.file: stage.proto.SerializeToString(deterministic=True) for stage in stages}
    template = {} if facts.chat_template is None else {"chat_template": facts.chat_template}
    tokenizer = {"tokenizer_class": "PreTrainedTokenizerFast", **template}
    return {
        **files,
        CONFIG: json_bytes(_config(facts, stages, soc)),
        "tokenizer_config.json": json_bytes(tokenizer),
    }


@dataclass(frozen=True, slots=True)
class _Stage:
    """A model of the pipeline.

    Attributes:
        proto: Its ONNX model.
        runs: When it runs.
    """

    name: str
    proto: Any
    runs: Mapping[str, bool] = field(default_factory=dict)

    @property
    def file(self) -> str:
        return f"{self.name}.onnx"

    @property
    def entry(self) -> dict[str, Any]:
        graph = self.proto.graph
        sides = {"inputs": graph.input, "outputs": graph.output}
        is_on_cpu = self.name in (_INPUTS, _OUTPUTS)
        return {
            "filename": self.file,
            **({"session_options": {"provider_options": []}} if is_on_cpu else {}),
            **{side: [port.name for port in listed] for side, listed in sides.items()},
            **self.runs,
        }


def _config(facts: Facts, stages: Sequence[_Stage], soc: str) -> dict[str, Any]:
    target = find_soc(soc)
    provider = {
        "backend_type": "htp",
        "htp_performance_mode": "burst",
        "enable_htp_shared_memory_allocator": "1",
        "soc_model": str(target.id),
        "htp_arch": target.capabilities.name.removeprefix("v"),
    }
    window = {
        "window_size": facts.prompt_tokens,
        "pad_value": _ZERO,
        "alignment": "right",
        "slide_key_value_cache": True,
        "slide_inputs": True,
    }
    sides = {
        "inputs": {
            "input_ids": _TOKENS,
            "attention_mask": _SEEN,
            "position_ids": _PLACES,
            "past_key_names": "past_key_%d_in",
            "past_value_names": "past_value_%d_in",
        },
        "outputs": {
            "logits": _SCORES,
            "present_key_names": "past_key_%d_out",
            "present_value_names": "past_value_%d_out",
        },
    }
    decoder = {
        "session_options": {"provider_options": [{"QNN": provider}]},
        "num_hidden_layers": facts.layers,
        "num_key_value_heads": facts.kv_heads,
        "head_size": facts.head_dim,
        "sliding_window": window,
        **sides,
        "pipeline": [{stage.name: stage.entry for stage in stages}],
    }
    model = {
        "type": "decoder-pipeline",
        "vocab_size": facts.vocab,
        "context_length": facts.context,
        "pad_token_id": _PADDING,
        "eos_token_id": list(facts.eos) or _PADDING,
        "decoder": decoder,
    }
    if facts.bos is not None:
        model["bos_token_id"] = facts.bos
    return {"model": model, "search": {"do_sample": False, "max_length": facts.context}}


def _inputs(facts: Facts, named: Mapping[str, Tensor]) -> Any:
    """Return the model of the inputs of context binaries, for any number of tokens."""
    from onnx import TensorProto, helper, numpy_helper

    context = facts.context
    nodes: list[Any] = []
    seen, unseen = mask_values(named[MASK])
    constants: dict[str, Any] = {
        "first": np.array([0], np.int32),
        "zero": np.array(0),
        "one": np.array(1),
        "span": np.array(context),
        "columns": np.arange(context),
        "axis": np.array([1]),
        "axes": np.array([0, 1]),
        "front": np.array([0]),
        "value_seen": np.array(seen, np.int32),
        "value_unseen": np.array(unseen, np.int32),
    }

    def add(kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    add("Max", [_TOKENS, "first"], IDS)
    add("Size", [_TOKENS], "count")
    add("Range", ["zero", "count", "one"], "rows")
    add("Sub", ["span", "count"], "past")
    add("Add", ["rows", "past"], "last_columns")
    add("Unsqueeze", ["last_columns", "axis"], "last_column")
    add("LessOrEqual", ["columns", "last_column"], "before")
    add("Cast", [_SEEN], "filled", to=TensorProto.BOOL)
    add("And", ["before", "filled"], "visible")
    add("Where", ["visible", "value_seen", "value_unseen"], "mask_rows")
    add("Cast", ["mask_rows"], "mask_stored", to=element_type(named[MASK]))
    add("Unsqueeze", ["mask_stored", "axes"], MASK)
    for name in (COSINES, SINES):
        if name in named and facts.rope is not None:
            table = turned(facts.rope, name, np.arange(context), context)
            constants[f"{name}_table"] = to_quantized(table, named[name])
            add("Gather", [f"{name}_table", _PLACES], f"{name}_rows", axis=0)
            add("Unsqueeze", [f"{name}_rows", "front"], name)
    if POSITIONS in named:
        add("Identity", [_PLACES], POSITIONS)
    ports_in = [
        helper.make_tensor_value_info(_TOKENS, TensorProto.INT32, [1, "tokens"]),
        helper.make_tensor_value_info(_SEEN, TensorProto.INT32, [1, context]),
        helper.make_tensor_value_info(_PLACES, TensorProto.INT32, [1, "tokens"]),
    ]
    outputs = [_info(named[name]) for name in (IDS, MASK, COSINES, SINES, POSITIONS) if name in named]
    initializers = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    return onnx_model(_INPUTS, nodes, ports_in, outputs, initializers)


def _outputs(logits: Tensor) -> Any:
    """Return the model that makes logits floats."""
    from onnx import TensorProto, helper, numpy_helper

    if not isinstance(logits.encoding, ScaleOffset):
        raise ValueError(f"tensor {logits.name!r} has no encoding")
    scale = numpy_helper.from_array(np.array(logits.encoding.scale, np.float32), "scale")
    zero = numpy_helper.from_array(np.array(-logits.encoding.offset, logits.dtype.numpy), "zero")
    node = helper.make_node("DequantizeLinear", [LOGITS, "scale", "zero"], [_SCORES])
    scores = helper.make_tensor_value_info(_SCORES, TensorProto.FLOAT, _dims(logits))
    return onnx_model(_OUTPUTS, [node], [_info(logits)], [scores], [scale, zero])


def _info(tensor: Tensor) -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(tensor.name, element_type(tensor), _dims(tensor))


def _dims(tensor: Tensor) -> list[int | str]:
    """Return a shape with any number of tokens, which stand in the middle."""
    axis = tensor.rank // 2
    return ["tokens" if place == axis else size for place, size in enumerate(tensor.shape)]
