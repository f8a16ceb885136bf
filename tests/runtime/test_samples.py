"""Real networks: the imported model computes what onnxruntime computes."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.running import run

MODELS = {
    "deconv_group": {},
    "image_classifier32": {"modelInput": (1, 3, 32, 32)},
    "light_squeezenet": {},
    "magika_v3_3": {"bytes": (1, 2048)},
    "mlperf_kws": {},
    "mlperf_resnet8": {},
    "mnist_cntk": {},
    "mobilenet_v2_quant_nnstreamer": {},
    "mtcnn_pnet": {"input_1": (1, 64, 48, 3)},
    "oww_embedding_model": {"input_1": (1, 76, 32, 1)},
    "ppocr_cls_v2": {"x": (1, 3, 48, 192)},
    "silero_encoder_v5": {"input": (1, 576)},
    "ultraface_rfb320": {},
    "yolox_nano": {},
}


def sample(tensor, rng):
    """Return the source's value of an input, which a quantized one reads as reals."""
    if tensor.dtype.is_float or tensor.dtype.is_fixed:
        dtype = np.float32 if tensor.dtype.is_fixed else tensor.dtype.numpy
        return rng.standard_normal(tensor.shape).astype(dtype)
    return rng.integers(0, 2, tensor.shape).astype(tensor.dtype.numpy)


@pytest.mark.corpus
@pytest.mark.parametrize("name", MODELS)
def test_networks_compute_what_their_source_computes(corpus: Path, name: str, rng):
    import onnxruntime

    from xdlc.converter.onnx import FRONTEND

    (path,) = (corpus / "onnx" / name).glob("*.onnx")
    model = FRONTEND.convert(path, input_dims=MODELS[name] or None)
    feeds = {tensor.name: sample(tensor, rng) for tensor in model.main.inputs}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    source = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    found = run(model, feeds)  # the model knows that encodings are the source's
    for info, want in zip(source.get_outputs(), source.run(None, feeds), strict=True):
        have = found[info.name]
        assert have.shape == want.shape
        assert have.dtype == want.dtype
        error = np.linalg.norm(have.astype(np.float64) - want)
        assert error <= 1e-5 * max(float(np.linalg.norm(want)), 1e-30)
