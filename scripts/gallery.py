"""Measure real models for the gallery of the documentation.

    XDLC_CORPUS=FOLDER python -m scripts.gallery              # models that docs/gallery.json lacks
    XDLC_CORPUS=FOLDER python -m scripts.gallery lenet kws    # these models again
    python -m scripts.gallery --write                         # write the pages from docs/gallery.json

Each model is converted, quantized with 8-bit and with 16-bit activations, prepared and planned for one SoC,
in a process with a time limit.  The corpus has the models, and data sets for some of them.  A row has the
verdict and the picture of the 8-bit report (docs/gallery), which hold no weights and no values of samples.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
FIGURES, PAGE, HOME, PICTURES = (
    ROOT / "docs" / name for name in ("gallery.json", "gallery.md", "index.md", "gallery")
)
SOC = "sm8650"
SECONDS = 420
CALIBRATION, JUDGED = 24, 24
TRIALS = 24
"""Tensors that a report quantizes alone."""
ON_HOME = ("ResNet-8", "Keyword spotting", "YOLOX-Nano", "UltraFace RFB-320", "PP-OCR direction", "LeNet")

Feeds = Mapping[str, Any]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Network:
    """A model of the corpus.

    Attributes:
        file: Path in the corpus.
        samples: Values of its inputs: ``image`` (photos), ``text`` (words on photos), ``digit`` (drawn),
            ``cifar`` and ``kws`` (with labels), or ``noise``.
        task: What it does.
        scale: Images are multiplied by it, after ``mean`` is subtracted.
        dims: Shape of its first input, if the model leaves it open.
        name: Name of that input.
        weights: File of the weights, if it has one of its own.
    """

    file: str
    samples: str
    task: str
    scale: float = 1 / 255
    mean: float = 0
    dims: tuple[int, ...] = ()
    name: str = ""
    weights: str = ""


MODELS = {
    "ResNet-8": Network("onnx/mlperf_resnet8/model.onnx", "cifar", "classes of CIFAR-10", 1),
    "Keyword spotting": Network("onnx/mlperf_kws/model.onnx", "kws", "12 spoken words"),
    "MNIST CNN": Network("onnx/mnist_cntk/mnist.onnx", "digit", "digits"),
    "MTCNN R-Net": Network(
        "onnx/mtcnn_rnet/rnet.onnx", "image", "faces", 1 / 128, 127.5, (1, 24, 24, 3), "input_2"
    ),
    "UltraFace RFB-320": Network(
        "onnx/ultraface_rfb320/version-RFB-320.onnx", "image", "faces", 1 / 128, 127
    ),
    "YOLOX-Nano": Network("onnx/yolox_nano/yolox_nano.onnx", "image", "80 classes of objects", 1),
    "PP-OCR direction": Network(
        "onnx/ppocr_cls_v2/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "text",
        "direction of text",
        1 / 127.5,
        127.5,
        (1, 3, 48, 192),
        "x",
    ),
    "PP-OCRv3 detector": Network(
        "onnx/ppocrv3_det/ch_PP-OCRv3_det_infer.onnx",
        "text",
        "lines of text",
        1 / 58,
        116,
        (1, 3, 320, 320),
        "x",
    ),
    "Speech embedding": Network(
        "onnx/oww_embedding_model/embedding_model.onnx", "noise", "sounds", 1, 0, (1, 76, 32, 1), "input_1"
    ),
    "ddddocr": Network(
        "onnx/ddddocr_crnn_old/common_old.onnx", "text", "captchas", 1 / 255, 0, (1, 1, 64, 160), "input1"
    ),
    "ResNet, tiny": Network("pytorch/gen_resnet_tiny/gen_resnet_tiny.pt2", "image", "random weights"),
    "MTCNN P-Net": Network("pytorch/mtcnn_pnet/mtcnn_pnet.pt2", "image", "faces", 1 / 128, 127.5),
    "YOLO-FastestV2": Network("pytorch/yolo_fastestv2/yolo_fastestv2.pt2", "image", "80 classes of objects"),
    "CIFAR CNN": Network(
        "tensorflow/cifar_frozen_mlnet/frozen_model.pb",
        "image",
        "classes of CIFAR-10",
        1,
        0,
        (1, 32, 32, 3),
        "Input",
    ),
    "Keyword spotting, SavedModel": Network(
        "tensorflow_savedmodel/mlperf_kws_ref", "kws", "12 spoken words", 1, 0, (1, 49, 10, 1), "input_1"
    ),
    "MNIST, dense": Network(
        "tensorflow/mnist_nns/mnist.pb", "digit", "digits", 1 / 255, 0, (1, 784), "input"
    ),
    "BlazeFace": Network(
        "tflite/mediapipe_face_detection_short_range/face_detection_short_range.tflite",
        "image",
        "faces",
        1 / 127.5,
        127.5,
    ),
    "Keyword spotting, TFLite": Network(
        "tflite/mlperf_kws/kws_ref_model_float32.tflite",
        "kws",
        "12 spoken words",
        1,
        0,
        (1, 49, 10, 1),
        "input_1",
    ),
    "ResNet-8, TFLite": Network(
        "tflite/mlperf_resnet8/pretrainedResnet.tflite",
        "cifar",
        "classes of CIFAR-10",
        1,
        0,
        (1, 32, 32, 3),
        "input_1",
    ),
    "LeNet": Network(
        "caffe/lenet_mnist/lenet.prototxt",
        "digit",
        "digits",
        1 / 256,
        0,
        (1, 1, 28, 28),
        "data",
        "caffe/lenet_mnist/lenet_iter_9000.caffemodel",
    ),
    "RetinaFace": Network(
        "caffe/retinaface_mnet25/mnet.prototxt",
        "image",
        "faces",
        1,
        0,
        (1, 3, 384, 640),
        "data",
        "caffe/retinaface_mnet25/mnet.caffemodel",
    ),
    "WeChat QR detector": Network(
        "caffe/wechat_qr_detect/detect.prototxt",
        "image",
        "QR codes",
        1 / 255,
        0,
        (),
        "",
        "caffe/wechat_qr_detect/detect.caffemodel",
    ),
    "SqueezeNet": Network(
        "caffe2/trafficlight_squeezenet/predict_net.pb",
        "image",
        "traffic lights",
        1,
        128,
        (1, 3, 227, 227),
        "data",
        "caffe2/trafficlight_squeezenet/init_net.pb",
    ),
}
_FRAMEWORKS = {"onnx": "ONNX", "tflite": "TFLite", "caffe": "Caffe", "caffe2": "Caffe2", "pytorch": "PyTorch"}


# ------------------------------------------------------------------ measuring


def samples(network: Network, shapes: Mapping[str, tuple[int, ...]], corpus: Path) -> tuple[list[Feeds], Any]:
    """Return the feeds for a network, and labels where the corpus has some."""
    name, shape = next(iter(shapes.items()))
    if network.samples in ("cifar", "kws"):
        file = {"cifar": "cifar10/cifar10.npz", "kws": "kws01/kws01.npz"}[network.samples]
        with np.load(corpus / "datasets" / file) as data:
            values, labels = data["x"].astype(np.float32), data["y"]
        if network.samples == "kws":
            values = (values - 83) * np.float32(0.5847029089927673)  # the input encoding of the int8 model
        order = np.random.default_rng(1).permutation(len(values))
        values, labels = values[order], labels[order]
        return [{name: value.reshape(shape)} for value in values], labels
    count = CALIBRATION + JUDGED
    rng = np.random.default_rng(1)
    if network.samples == "digit":
        images = [digit(number % 10, rng).reshape(shape) for number in range(count)]
    elif network.samples in ("image", "text"):
        photos = _photos(corpus, count, rng)
        images = [crop(path, shape, rng, words=network.samples == "text") for path in photos]
    else:
        images = []
    if images:
        return [{name: ((image - network.mean) * network.scale).astype(np.float32)} for image in images], None
    return [
        {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        for _ in range(count)
    ], None


def _photos(corpus: Path, count: int, rng: np.random.Generator) -> list[Path]:
    photos = sorted(
        path for path in (corpus / "datasets").rglob("*") if path.suffix.lower() in (".jpg", ".jpeg")
    )
    return [photos[index] for index in rng.permutation(np.arange(count) % len(photos))]


def digit(value: int, rng: np.random.Generator) -> Array:
    """Return a picture of a digit, 28 x 28 values 0 to 255."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("L", (28, 28))
    place = (float(rng.uniform(5, 10)), float(rng.uniform(-2, 3)))
    font = ImageFont.load_default(size=float(rng.uniform(20, 26)))
    ImageDraw.Draw(image).text(place, str(value), fill=255, font=font)
    return np.asarray(image, np.float32)


def crop(path: Path, shape: Sequence[int], rng: np.random.Generator, *, words: bool) -> Array:
    """Return a random part of a photo in the shape of an input, values 0 to 255."""
    from PIL import Image, ImageDraw, ImageFont

    is_first = shape[1] in (1, 3)
    height, width = shape[2:4] if is_first else shape[1:3]
    channels = shape[1] if is_first else shape[3]
    with Image.open(path) as photo:
        image = photo.convert("RGB" if channels == 3 else "L")
        part = float(rng.uniform(0.5, 1))
        size = [int(edge * part) for edge in image.size]
        left, top = (
            int(rng.integers(0, edge - length + 1)) for edge, length in zip(image.size, size, strict=True)
        )
        image = image.resize((width, height), box=(left, top, left + size[0], top + size[1]))
        if words:
            texts = (
                "".join(rng.choice(list("abcdefghkmnprstuvwxyz23456789"), 8)) for _ in range(height // 24)
            )
            for line, text in enumerate(texts):
                font = ImageFont.load_default(size=float(rng.uniform(14, 22)))
                ImageDraw.Draw(image).text((4, 24 * line), text, fill="white", stroke_width=1, font=font)
        values = np.asarray(image, np.float32).reshape(height, width, channels)
    return np.asarray(values.transpose(2, 0, 1) if is_first else values)[None]


def measure(title: str, corpus: Path) -> dict[str, Any]:
    """Return the figures of a model, and write the picture of its report."""
    import xdlc
    from xdlc.quant.report import Reporter, write

    network, reporter = MODELS[title], Reporter(title=title, trials=TRIALS)
    options: dict[str, Any] = {"input_dims": {network.name: network.dims}} if network.dims else {}
    if network.weights:
        options["weights"] = corpus / network.weights
    model = xdlc.convert(corpus / network.file, **options)
    shapes = {tensor.name: tuple(map(int, tensor.shape)) for tensor in model.main.inputs}
    feeds, labels = samples(network, shapes, corpus)
    calibration, judged = feeds[:CALIBRATION], feeds[CALIBRATION:]
    expected = _run(model, judged)
    facts: dict[str, Any] = {"ops": len(model.main.ops), "samples": len(judged), "with": network.samples}
    facts["source_bytes"] = sum(_bytes(corpus / file) for file in (network.file, network.weights) if file)
    facts["are_labels"] = not model.main.outputs[0].dtype.is_float
    if labels is not None:
        labels = labels[CALIBRATION:]
        facts["float"] = _met(expected, labels)
    notes: list[str] = []
    for bits in (8, 16):
        reporting: Any = (
            {"report": reporter, "report_list": judged, "notify": notes.append} if bits == 8 else {}
        )
        quantized = xdlc.quantize(model, calibration, act_bitwidth=bits, **reporting)
        results = _run(quantized, judged)
        facts[f"a{bits}"] = {"db": _db(expected, results)}
        if labels is not None:
            facts[f"a{bits}"]["met"] = _met(results, labels)
        elif expected[0][0].ndim == 2 and len(expected[0]) == 1 and expected[0][0].shape[1] > 1:
            facts[f"a{bits}"]["same"] = _same(expected, results, are_labels=facts["are_labels"])
        if bits == 8:
            facts |= _prepared(quantized)
    for note in notes:
        print(note, file=sys.stderr)
    facts["verdict"] = next(note for note in notes if note.startswith("verdict: "))
    assert reporter.result is not None
    PICTURES.mkdir(exist_ok=True)
    write(reporter.result, PICTURES / f"{slug(title)}.svg")
    return facts


def slug(title: str) -> str:
    """Return the anchor of a heading, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def _bytes(path: Path) -> int:
    return (
        sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        if path.is_dir()
        else path.stat().st_size
    )


def _run(model: Any, feeds: Sequence[Feeds]) -> list[list[Array]]:
    import xdlc

    with xdlc.Session(model) as session:
        return [[np.asarray(value, np.float64) for value in row.values()] for row in session.run_batch(feeds)]


def _db(expected: list[list[Array]], results: list[list[Array]]) -> float | None:
    """Return the SQNR of the worst output in dB, over all samples; None if all are equal."""
    worst = math.inf
    for before, after in zip(zip(*expected, strict=True), zip(*results, strict=True), strict=True):
        signal = sum(float(np.sum(value**2)) for value in before)
        noise = sum(float(np.sum((a - b) ** 2)) for a, b in zip(before, after, strict=True))
        worst = min(worst, 10 * math.log10(signal / noise) if noise and signal else math.inf)
    return None if math.isinf(worst) else round(worst, 1)


def _same(expected: list[list[Array]], results: list[list[Array]], *, are_labels: bool) -> float:
    """Return how often the first class stays the same, or all labels do."""
    pairs = [(before[0], after[0]) for before, after in zip(expected, results, strict=True)]
    return float(
        np.mean([np.array_equal(a, b) if are_labels else a[0].argmax() == b[0].argmax() for a, b in pairs])
    )


def _met(results: list[list[Array]], labels: Array) -> float:
    return float(np.mean([row[0].argmax() == label for row, label in zip(results, labels, strict=True)]))


def _prepared(model: Any) -> dict[str, Any]:
    import xdlc
    from xdlc import api
    from xdlc.errors import each_problem, raise_all

    facts: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.dlc"
        model.save(path)
        facts["dlc_bytes"] = path.stat().st_size
        prepared = api.prepare_all(model, [SOC], partition=True, verify=False)
        raise_all(prepared.problems)
        prepared.model.save(path)
        facts["cache_bytes"] = path.stat().st_size - facts["dlc_bytes"]
    plan = prepared.plans[0]
    facts["on_htp"] = [plan.cached, plan.cached + len(plan.left)]
    try:
        report = xdlc.cost(model, [SOC]).as_dict()
    except xdlc.XdlcError as error:
        return facts | {"cost": str(each_problem(error)[0]).split("\n")[0]}
    totals, time = report["devices"][0]["totals"], report["devices"][0]["milliseconds"]
    facts["macs"] = report["static"][0]["macs"]
    facts["dram"] = totals["dram_read"] + totals["dram_write"]
    return facts | {"ms": time}


# ------------------------------------------------------------------ pages


def page(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page of the gallery."""
    lines = _ABOUT.format(soc=SOC.upper(), calibration=CALIBRATION, judged=JUDGED).splitlines()
    reports: list[str] = []
    for title, network in MODELS.items():
        facts = rows.get(title, {})
        framework = _FRAMEWORKS.get(network.file.split("/")[0], "TensorFlow")
        if "a16" not in facts:
            continue
        name = title
        if "verdict" in facts:
            name, file = f"[{title}](#{slug(title)})", f"{PICTURES.name}/{slug(title)}.svg"
            verdict = re.sub("; outputs at -(, on .*)?$", "", facts["verdict"].removeprefix("verdict: "))
            reports += ["", f"## {title}", "", f"8 bits: `{verdict}`", *_lacking(facts)]
            reports += ["", f"![Error so far of each op, and the bytes that it moves: {title}]({file})"]
        cells = [name, framework, network.task, *_quality(facts), *_on_htp(facts)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, *reports]) + "\n"


def _lacking(facts: Mapping[str, Any]) -> list[str]:
    """Return why a model has no cost, if it has none."""
    return [] if "cost" not in facts else ["", f"`xdlc cost` stops: {facts['cost'].split(': ', 2)[-1]}."]


_ABOUT = """\
# Gallery: real models on {soc}

`scripts/gallery.py` converts each model, quantizes it with the defaults, compiles it for {soc}, and writes this page.

- **8-bit** and **16-bit** compare the worst output with the float DLC, in dB. 20 dB is an error of 10 %, 40 dB is an error of 1 %.
  The activations have 8 or 16 bits; the weights have 8 bits.
- **Task** says *right* for a data set with labels, and counts the right answers of the float, 8-bit and 16-bit models. Without labels,
  the column says *same*, and counts how often the first class, or all labels, stay the same.
- **Ops on HTP** counts the ops that HTP runs; the CPU runs the other ops.
- **DRAM** counts the bytes that HTP reads and writes in one inference, by the compiler's plan.
- **Time** is an estimate. The interval contains the time of 8 of 10 networks. *Too small* means that the model moves fewer
  bytes than all measured networks.

xdlc calibrates with {calibration} samples and judges other samples. It judges {judged} photos, photos with words or drawn digits, or the
rest of a data set. Models marked * receive random numbers: ignore the dB of these models.
Click a model to see its verdict and the picture of its report. The dB of the report differ from the table, because the
report prints the mean of the outputs, and measures the input of a Softmax.

| model | source | it finds | 8-bit | 16-bit | task | ops on HTP | source, DLC, cache (KiB) | M MACs | DRAM (KiB) | time (ms) |
|---|---|---|---:|---:|---|---:|---|---:|---:|---|
"""  # noqa: E501


def _quality(facts: Mapping[str, Any]) -> list[str]:
    mark = " *" if facts["with"] == "noise" else ""
    if facts.get("are_labels"):
        return ["-", "-", _kept(facts)]
    decibels = ["equal" if facts[key]["db"] is None else f"{facts[key]['db']} dB" for key in ("a8", "a16")]
    return [f"{decibel}{mark}" for decibel in decibels] + [_kept(facts)]


def _kept(facts: Mapping[str, Any]) -> str:
    """Return what is left of the task."""
    if "float" in facts:
        shares = (facts["float"], facts["a8"]["met"], facts["a16"]["met"])
        return f"right: {', '.join(f'{share:.1%}' for share in shares)} of {facts['samples']}"
    if "same" in facts["a8"]:
        return f"same: {facts['a8']['same']:.0%}, {facts['a16']['same']:.0%} of {facts['samples']}"
    return "-"


def _on_htp(facts: Mapping[str, Any]) -> list[str]:
    sizes = (facts[key] / 1024 for key in ("source_bytes", "dlc_bytes", "cache_bytes"))
    cells = [f"{facts['on_htp'][0]} of {facts['on_htp'][1]}", ", ".join(f"{size:,.0f}" for size in sizes)]
    if "ms" not in facts:
        return [*cells, "-", "-", "-"]
    time = facts["ms"]
    shown = (
        "too small" if "reason" in time else f"{time['value']:.2g} ({time['low']:.2g} to {time['high']:.2g})"
    )
    return [*cells, f"{facts['macs'] / 1e6:,.1f}", f"{facts['dram'] / 1024:,.0f}", shown]


def results(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table of the home page."""
    lines = [
        f"| model | 8-bit | 16-bit | task: float, 8-bit, 16-bit | ops on HTP of {SOC.upper()} |",
        "|---|---:|---:|---|---|",
    ]
    for title in ON_HOME:
        if "a8" in rows.get(title, {}):
            cells = [title, *_quality(rows[title]), _on_htp(rows[title])[0]]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def with_results(home: str, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the home page with the table between its two marks."""
    start, end = re.search("<!-- results:.*-->\n", home), home.index("<!-- end of results -->")
    assert start is not None
    return f"{home[: start.end()]}\n{results(rows)}\n\n{home[end:]}"


def write() -> None:
    """Write both pages from the stored figures."""
    rows = json.loads(FIGURES.read_text())
    PAGE.write_text(page(rows))
    HOME.write_text(with_results(HOME.read_text(), rows))


def main() -> int:
    """Measure models, and write the pages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="part of a title")
    parser.add_argument("--write", action="store_true", help="write the pages only")
    parser.add_argument("--one", metavar="TITLE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        write()
        return 0
    corpus = Path(os.environ["XDLC_CORPUS"])
    if options.one:
        print(json.dumps(measure(options.one, corpus)))
        return 0
    rows = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    parts = [part.lower() for part in options.models]
    for title in MODELS:
        if any(part in title.lower() for part in parts) if parts else "ops" not in rows.get(title, {}):
            rows[title] = _measured(title)
            print(title, rows[title], flush=True)
            FIGURES.write_text(json.dumps(rows, indent=1) + "\n")
    write()
    return 0


def _measured(title: str) -> dict[str, Any]:
    """Return the figures of a model from a process of its own, or why there are none."""
    command = [sys.executable, "-m", "scripts.gallery", "--one", title]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"not done in {SECONDS} s"}
    print(done.stderr, end="", file=sys.stderr)
    if done.returncode:
        return {"error": (done.stderr.strip().split("\n") or ["?"])[-1]}
    facts: dict[str, Any] = json.loads(done.stdout.strip().split("\n")[-1])
    return facts


if __name__ == "__main__":
    sys.exit(main())
