"""The README of a bundle: sizes, traffic, checks, and what a device needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdlc.ir import BlockScaleOffset, BlockwiseExpansion, Graph, Model
from xdlc.llm.genai import is_supported
from xdlc.llm.layout import cache_name, token_graphs
from xdlc.quant.ranges import used_bits

if TYPE_CHECKING:
    from xdlc.llm.bundle import Bundle

_MB = 1e6
_SCALE_BYTES = 2
"""Bytes of the scale of a block in a cache: float16."""


def readme(bundle: Bundle, parts: Sequence[Model]) -> str:
    """Return the text for a bundle that is written."""
    facts = bundle.facts
    graphs = [token_graphs(part) for part in parts]
    weights = sum(weight_bytes(next(iter(part.values()))) for part in graphs)
    spans = facts.context, *facts.shorter_contexts
    lines = [
        f"# {facts.family}, {facts.weights}",
        "",
        f"{facts.layers} layers, {facts.vocab} tokens, context of {_or(spans)} tokens; xdlc reads a prompt "
        f"{facts.prompt_tokens} tokens at a time. xdlc-llm wrote this bundle.",
        "",
        "| | MB |",
        "|---|---|",
        f"| weights that a token reads | {weights / _MB:.1f} |",
    ]
    for span in spans:
        cache = sum(cache_bytes(part[span]) for part in graphs if span in part)
        lines += [
            f"| cache of keys and values of {span} tokens, {facts.kv_bits} bits | {cache / _MB:.1f} |",
            f"| DRAM traffic of a token after {span - 1}, at least | {(weights + cache) / _MB:.1f} |",
        ]
    for soc, target in bundle.targets.items():
        size = sum(path.stat().st_size for path in target.binaries)
        sharing = "weights shared by its graphs" if target.is_shared else "weights stored for each graph"
        lines.append(f"| context binaries for {soc}, {sharing} | {size / _MB:.1f} |")
    lines += ["", "On this machine, run `xdlc llm chat .`, or `xdlc llm run . --prompt TEXT`.", ""]
    for soc in bundle.targets:
        lines += [
            f"On a device with {soc}: copy the folder `{soc}`, and from the vendor's SDK `genie-t2t-run`, "
            "`libGenie.so`, `libQnnHtp.so`, `libQnnHtpNetRunExtensions.so`, `libQnnSystem.so`, the stub and "
            "the skel of the DSP's generation; then in that folder:",
            "",
            '    LD_LIBRARY_PATH=. ADSP_LIBRARY_PATH=. ./genie-t2t-run -c genie_config.json -p "Hello"',
            "",
        ]
    if bundle.targets and is_supported(facts, parts):
        lines += ["For onnxruntime-genai with its QNN provider, the same folder is a model.", ""]
    lines += ["Checks:", "", *(f"- {check}" for check in facts.checks or ("none",))]
    return "\n".join(lines) + "\n"


def _or(numbers: Sequence[int]) -> str:
    return " or ".join(map(str, numbers))


def weight_bytes(graph: Graph) -> int:
    """Return the bytes of stored tensors that a run reads; of a table it reads rows."""
    tables = {op.inputs[0] for op in graph.ops if op.type == "Gather"}
    tables -= {tensor for op in graph.ops if op.type != "Gather" for tensor in op.inputs}
    total = 0
    for tensor in graph.tensors.values():
        if tensor.is_static and tensor not in tables:
            bits = None if tensor.encoding is None else used_bits(tensor.encoding)
            total += tensor.size * (bits or tensor.dtype.bits) // 8
            if isinstance(tensor.encoding, BlockScaleOffset):
                total += _SCALE_BYTES * len(tensor.encoding.scales)
            elif isinstance(tensor.encoding, BlockwiseExpansion):
                total += len(tensor.encoding.block_scales) * tensor.encoding.block_scale_bits // 8
    return total


def cache_bytes(graph: Graph) -> int:
    """Return the bytes of the keys and values that a run reads."""
    return sum(tensor.nbytes for tensor in graph.inputs if cache_name(tensor.name))
