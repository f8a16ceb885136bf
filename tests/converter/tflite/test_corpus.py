"""Real TFLite files that LiteRT does not run: what becomes of each."""

from pathlib import Path

import pytest

import xdlc
from xdlc.errors import ModelError, UnsupportedOp, XdlcError, each_problem

CONVERTED = """
litert_small/max_unpooling_2d litert_small/max_unpooling_2d_valid litert_small/multi_add_flex
litert_small/single_conv_no_bias litert_small/single_gather_nd_with_const_params
litert_small/single_rsqrt_default_a16w8_recipe_quantized litert_small/softplus_flex
mediapipe_selfie_segmentation seanet/transpose_conv2 seanet/transpose_conv3 text_classification
tflm_person_detect
"""
REFUSED = {
    "litert_small/MTKEXT_CONV_2D": (UnsupportedOp, "MTKEXT_CONV_2D"),
    "litert_small/add_shared_tensors": (ModelError, "its own result"),
    "litert_small/custom_sinh": (UnsupportedOp, "Sinh"),
    "litert_small/no_subgraphs": (ModelError, "no sub-graph"),
    "litert_small/precompiled_mediatek_model": (UnsupportedOp, "compiled"),
    "litert_small/segment_sum_invalid_buffer": (ModelError, "nothing produces"),
    "litert_small/shared_input_cpu_npu_google_tensor_precompiled": (UnsupportedOp, "compiled"),
    "litert_small/simple_add_op": (UnsupportedOp, "compiled"),
    "litert_small/simple_model_npu_mediatek_mt6989_precompiled": (UnsupportedOp, "compiled"),
    "litert_small/simple_model_qualcomm_sm8650_precompiled": (UnsupportedOp, "compiled"),
    "litert_small/simple_squeeze": (XdlcError, "axes"),
    "litert_small/single_slice": (ModelError, "slice"),
    "litert_small/sparse_tensor": (UnsupportedOp, "FakeOp"),
    "litert_small/tensor_string_data_type": (UnsupportedOp, "string"),
    "litert_small/with_metadata": (UnsupportedOp, "compiled"),
    "tflm_audio_preprocessor_float": (UnsupportedOp, "Signal"),
    "tfls_sentencepiece_tokenizer_flex_op": (UnsupportedOp, "string"),
}


def _file(corpus: Path, name: str) -> Path:
    (found,) = (corpus / "tflite" / name).glob("*.tflite")
    return found


@pytest.mark.corpus
@pytest.mark.parametrize("name", CONVERTED.split())
def test_a_file_is_converted(corpus: Path, name: str) -> None:
    model = xdlc.convert(_file(corpus, name), notify=lambda _: None)
    assert all(op.package != "xdlc" for op in model.main.ops)


@pytest.mark.corpus
@pytest.mark.parametrize("name", list(REFUSED))
def test_a_file_is_refused_for_its_reason(corpus: Path, name: str) -> None:
    with pytest.raises(XdlcError) as caught:
        xdlc.convert(_file(corpus, name), notify=lambda _: None)
    kind, words = REFUSED[name]
    for problem in each_problem(caught.value):
        assert isinstance(problem, kind)
        assert words in problem.problem
        assert problem.fix
