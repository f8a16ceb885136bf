"""Models of the corpus for the first importer, with reference inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime

import xdlc

# Folder name: image-like networks that HTP runs as a whole.
CNNS = (
    "light_bvlc_alexnet",
    "light_inception_v2",
    "light_resnet50",
    "light_squeezenet",
    "light_zfnet512",
    "yolox_nano",
    "ultraface_rfb320",
    "ppocr_cls_v2",
    "ppocrv3_det",
    "mnist_cntk",
    "mtcnn_pnet",
    "mtcnn_rnet",
    "silero_encoder_v5",
    "image_classifier32",
    "deconv_group",
    "oww_embedding_model",
    "mlperf_kws",
    "mlperf_resnet8",
)
OTHERS = ("magika_v3_3", "oww_hey_mycroft", "mobilenet_v2_quant_nnstreamer")


class CorpusModel:
    """A model with inputs: the reference's, or a ramp where there are none."""

    def __init__(self, corpus: Path, name: str) -> None:
        self.path = next((corpus / "onnx" / name).glob("*.onnx"))
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(self.path, options, providers=["CPUExecutionProvider"])
        self.feeds = {}
        for reference in self.path.parent.glob("*.ortref.npz"):
            with np.load(reference) as arrays:
                self.feeds = {
                    key[4:].replace("|", "/"): arrays[key] for key in arrays if key.startswith("in::")
                }
        for entry in self._session.get_inputs():
            if entry.name not in self.feeds:
                count = int(np.prod(entry.shape))
                ramp = np.arange(count).reshape(entry.shape) / count
                self.feeds[entry.name] = ramp.astype(np.float32)

    def convert(self):
        """Return our model of it."""
        dims = {entry.name: self.feeds[entry.name].shape for entry in self._session.get_inputs()}
        return xdlc.convert(self.path, input_dims=dims)

    def reference(self, feeds=None):
        """Return what onnxruntime makes of the source model."""
        names = [entry.name for entry in self._session.get_outputs()]
        return dict(zip(names, self._session.run(names, feeds or self.feeds), strict=True))

    def samples(self, count: int, seed: int = 0):
        """Return inputs around the reference ones, for calibration."""
        rng = np.random.default_rng(seed)
        for _ in range(count):
            yield {
                name: (array * rng.uniform(0.5, 1.5) + rng.normal(0, 0.05 * array.std(), array.shape)).astype(
                    array.dtype
                )
                if array.dtype.kind == "f"
                else array
                for name, array in self.feeds.items()
            }


def relative_error(found, expected) -> float:
    """Return the relative L2 error."""
    expected = np.asarray(expected, np.float64)
    norm = np.linalg.norm(expected)
    return float(np.linalg.norm(np.asarray(found, np.float64) - expected) / (norm or 1.0))
