"""The corpus by way of ONNX and back: the same graph, with named exceptions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.corpus
HARNESS = Path(__file__).parents[2] / "bench" / "roundtrip.py"
BFLOAT16 = "onnxruntime neither takes nor gives bfloat16, so that inputs and outputs are float32"
BIAS = "onnxruntime takes biases in steps of input scale times weight scale, whatever they state"
RESHAPED = "what the source reshapes around a recurrence and what ours does come back as one"
BRANCHES = "names inside of branches; the graph around them is the same"
SHARED = "outputs of stored integers and of their reals come back in another order"
MADE = "names of weights and copies that passes make, which the source has none for"
VIEWS = "a Reshape at the boundary that the first conversion needs and the second does not"
# Models that come back otherwise, by why.
OTHERWISE = {
    "bias_softmax_fusion_bfloat16": BFLOAT16,
    "example_float16": BFLOAT16,
    "example_several_inputs_and_outputs": BFLOAT16,
    "qdq_conv": BIAS,
    "qdq_convs": BIAS,
    "test_LSTM_tanh_bidirectional_model/model": RESHAPED,
    "silero_vad_half": RESHAPED,
    "relu_with_optional": BRANCHES,
    "silero_vad": BRANCHES,
    "three_layer_nested_subgraph": BRANCHES,
    "qdq_with_multi_consumer_q_dq_axis": SHARED,
    "dup_qdq": MADE,
    "hf_fp16_decoder_attention_with_past_split_bias": MADE,
    "hf_fp32_decoder_attention_with_past_split_bias": MADE,
    "oai_fp16_decoder_attention_with_past": MADE,
    "oai_fp16_decoder_attention_with_past_split_bias": MADE,
    "oai_fp32_decoder_attention_with_past": MADE,
    "oai_fp32_decoder_attention_with_past_split_bias": MADE,
    "unused_initializer": MADE,
    "tract_qrelu_1/model": VIEWS,
    "tract_qrelu_2/model": VIEWS,
    "tract_qtanh_1/model": VIEWS,
}
LEAST = 404


def test_the_same_graphs_come_back(corpus):
    report = subprocess.run(
        [sys.executable, HARNESS, corpus / "onnx", "--show"], capture_output=True, text=True, check=True
    ).stdout
    kinds = "other|renamed|inner|crashed|not exported|not converted again"
    unexpected = [
        line
        for line in re.findall(rf"^(?:{kinds}) +.*", report, re.M)
        if re.match(rf"(?:{kinds}) +(\S+)", line)[1] not in OTHERWISE
    ]
    assert unexpected == []
    (same,) = re.findall(r"^the same graph: (\d+) of", report, re.M)
    assert int(same) >= LEAST
