"""Formats of model files, recognized by content instead of file name.

Signatures are those of the formats' own specifications: file identifiers of FlatBuffers schemas (``TFL3``,
``ORTM``, ``ET12``, ``PTMF``), local headers of zip archives, field numbers of protobuf messages
(TensorFlow's graph.proto and saved_model.proto, caffe.proto, caffe2.proto, CoreML's Model.proto, Paddle's
framework.proto, onnx.proto).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from xdlc.records import record

HEAD = 1 << 20
"""Bytes read from each end of a file."""
MOST_FIELDS = 1 << 16
"""Fields of a message that are read at most."""
SHOWN = 60
"""Bytes of a file that messages show at most."""


@record(frozen=True)
class Format:
    """A format of a file or folder.

    Attributes:
        name: The format, with its article: ``a TensorFlow Lite model``.
        fix: What to do with it, in the imperative; FILE and FOLDER are replaced by its path.
    """

    name: str
    fix: str

    def fix_for(self, path: Path) -> str:
        """Return the fix for a file or folder."""
        places = {"FILE": path, "FOLDER": path if path.is_dir() else path.parent}
        return re.sub("FILE|FOLDER", lambda word: str(places[word[0]]), self.fix)


_EXPORT = "`torch.export.save(torch.export.export(model.eval(), inputs), 'model.pt2')`"
_TORCH = f"export the source network: {_EXPORT}"
_WEIGHTS = f"load the weights into their network, and export the network: {_EXPORT}"
_BUILD = "build a language model: `xdlc llm build FOLDER -o BUNDLE`"
_AGAIN = "get the model file itself"
_SOURCE = "convert the model from which this file was made"
_UNPACK = "unpack it, and pass the .onnx file inside"

_CONVERT = (
    "convert it: `xdlc convert FILE`; `xdlc convert FILE --dry-run` shows the inputs and writes nothing"
)
ONNX = Format("an ONNX model", _CONVERT)
TFLITE = Format("a TensorFlow Lite model", _CONVERT)
SAVED_MODEL = Format("a TensorFlow SavedModel", _CONVERT)
GRAPH_DEF = Format("a TensorFlow GraphDef", _CONVERT)
META_GRAPH = Format("a TensorFlow MetaGraph", _CONVERT)
CHECKPOINT = Format(
    "a TensorFlow checkpoint, which has weights and no graph",
    "pass the .meta file next to it",
)
KERAS = Format("a Keras model", _CONVERT)
TORCH_SCRIPT = Format("a TorchScript model", _CONVERT)
TORCH_EXPORT = Format("a program of torch.export", _CONVERT)
TORCH_CHECKPOINT = Format("a PyTorch checkpoint, which has weights and no graph", _WEIGHTS)
TORCH_COMPILED = Format("a package of AOTInductor, which has compiled code and no graph", _TORCH)
TORCH_BYTECODE = Format("a TorchScript model for the lite interpreter without its source code", _TORCH)
EXECUTORCH = Format("an ExecuTorch program", _TORCH)
SAFETENSORS = Format(
    "a safetensors file, which has weights and no graph",
    f"{_WEIGHTS}; {_BUILD}",
)
HUGGING_FACE = Format(
    "a folder of Hugging Face transformers",
    f"{_BUILD}; export another network: `optimum-cli export onnx --model FOLDER OUTPUT`",
)
CAFFE = Format("a Caffe net", "convert it: `xdlc convert FILE --weights NET.caffemodel`")
CAFFE_WEIGHTS = Format(
    "weights of a Caffe net",
    "pass the net as text, and these as weights: `xdlc convert NET.prototxt --weights FILE`",
)
CAFFE_SOLVER = Format("a Caffe solver, which has no layers", "pass the net that the solver names")
CAFFE2 = Format(
    "a Caffe2 network",
    "convert it: `xdlc convert FILE --weights INIT_NET.pb --input-dim INPUT 1,3,224,224`",
)
PADDLE = Format("a PaddlePaddle model", "convert it: `paddle2onnx --model_dir FOLDER --save_file model.onnx`")
OPENVINO = Format("an OpenVINO model", _SOURCE)
CORE_ML = Format("a Core ML model", _SOURCE)
NCNN = Format("an ncnn model", _SOURCE)
ORT = Format("a model in ORT format", "pass the .onnx file from which this file was made")
DLC = Format("a DLC", "show it: `xdlc info FILE`; quantize it: `xdlc quantize FILE -l samples.txt`")
GGUF = Format("a GGUF model", "build a language model of it: `xdlc llm build FILE -o BUNDLE`")
ONNX_TENSOR = Format(
    "an ONNX tensor, not a model", "pass the model's .onnx file; inputs belong in input lists"
)
ONNX_TEXT = Format("an ONNX model as text", "write it as a binary file with onnx.load and onnx.save")
LFS = Format("a pointer of git LFS, not the file itself", "fetch the file: `git lfs pull`")
EMPTY = Format("empty", f"{_AGAIN}: its download may have failed")
HTML = Format("an HTML page", f"{_AGAIN}: the download returned a web page")
NUMPY = Format(
    "a file of numpy arrays", "pass the .onnx file; arrays are samples for xdlc quantize and xdlc run"
)
JSON = Format("JSON text", _AGAIN)
XML = Format("XML text", _AGAIN)
ZIP = Format("a zip archive", _UNPACK)
CUT_ZIP = Format("a truncated zip archive", f"{_AGAIN} completely, or save it again")
TAR = Format("a tar archive", _UNPACK)

_MODELS = ("*.onnx", "*.tflite", "*.pb", "*.meta", "*.keras", "*.h5", "*/saved_model.pb")
"""Models that a folder may hold."""
_TABLE_END = 0xDB4775248B80FB57.to_bytes(8, "little")
"""Last bytes of a table of LevelDB, the index of a TensorFlow checkpoint."""
_HDF5 = b"\x89HDF\r\n\x1a\n"
_MAGIC = (
    (b"\x1f\x8b", Format("compressed with gzip", "decompress it: `gunzip FILE`, or `tar xf FILE`")),
    (b"BZh", Format("compressed with bzip2", "decompress it: `bunzip2 FILE`, or `tar xf FILE`")),
    (b"\xfd7zXZ\0", Format("compressed with xz", "decompress it: `unxz FILE`, or `tar xf FILE`")),
    (b"\x28\xb5\x2f\xfd", Format("compressed with zstd", "decompress it: `unzstd FILE`")),
    (b"7z\xbc\xaf\x27\x1c", Format("a 7z archive", _UNPACK)),
    (_HDF5, KERAS),
    (b"GGUF", GGUF),
    (b"\x93NUMPY", NUMPY),
    (b"7767517\n", NCNN),
    (b"RKNN", Format("an RKNN model", _SOURCE)),
    (b"version https://git-lfs.github.com/spec/", LFS),
    (b"\xd5\x0a", DLC),
)
_IDENTIFIERS = {b"TFL3": TFLITE, b"ORTM": ORT, b"ET12": EXECUTORCH, b"PTMF": TORCH_BYTECODE}
"""File identifiers of FlatBuffers, at byte 4."""

_IN_ZIP = (
    ((b"dlc.metadata",), DLC),
    ((b"model.params", b"model"), DLC),
    ((b"model.weights.h5", b"config.json"), KERAS),
    ((b"serialized_exported_program.json",), TORCH_EXPORT),
    ((b"archive_format", b"models/"), TORCH_EXPORT),
    ((b"archive_format", b"data/aotinductor"), TORCH_COMPILED),
    ((b"data.pkl", b"/code/"), TORCH_SCRIPT),
    ((b"bytecode.pkl",), TORCH_BYTECODE),
    ((b"data.pkl",), TORCH_CHECKPOINT),
    ((b"saved_model.pb",), ZIP),
    ((b".onnx",), ZIP),
    ((b".npy",), NUMPY),
)
"""Names of entries that archives of a format have."""

_TEXTS = (
    (rb"\A\s*(?><!--.*?-->\s*)*+<(!doctype html|html|head)\b", HTML),
    (rb"\A\s*(<\?xml.*?\?>\s*)?<net\b", OPENVINO),
    (rb"\A\s*<\?xml\b", XML),
    (rb"\A\s*(<\s*)?ir_version\s*:", ONNX_TEXT),
    (rb"\A\s*saved_model_schema_version\s*:", SAVED_MODEL),
    (rb"\A\s*meta_info_def\s*\{", META_GRAPH),
    (rb"(^|[\s}>,;])(layers?|input_shape|input_param)\s*+:?\s*+[{<]", CAFFE),
    (rb"^[ \t]*((train_)?net|base_lr|lr_policy|max_iter)\s*:", CAFFE_SOLVER),
    (rb"(^|[\s}>,;])op\s*+:?\s*+[{<]", CAFFE2),
    (rb"^[ \t]*node\s*\{", GRAPH_DEF),
    (rb"\A\s*[\[{]\s*[\"\[{\]}]", JSON),
)


def recognize(path: str | os.PathLike[str]) -> Format | None:
    """Return the format of a file or folder, if it is known.

    Only its two ends are read, at most ``HEAD`` bytes each.

    Raises:
        OSError: If it cannot be read.
    """
    place = Path(path)
    if place.is_dir():
        return _folder(place)
    if not stat.S_ISREG(place.stat().st_mode):
        return None
    with open(place, "rb") as file:
        head = file.read(HEAD)
        file.seek(max(file.seek(0, os.SEEK_END) - HEAD, 0))
        tail = file.read(HEAD)
    if not head:
        return EMPTY
    if head.startswith(_HDF5) and b"\0data\0" in head[:4096] and b"keras" not in head:
        return CAFFE_WEIGHTS  # its layers are in the group of that name
    for magic, found in _MAGIC:
        if head.startswith(magic):
            return found
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        names = head + tail
        if b"PK\x05\x06" not in tail:
            return CUT_ZIP
        return next((kind for marks, kind in _IN_ZIP if all(mark in names for mark in marks)), ZIP)
    if head[257:262] == b"ustar":
        return TORCH_CHECKPOINT if head.startswith((b"sys_info\0", b"pickle\0", b"storages\0")) else TAR
    if head[4:8] in _IDENTIFIERS:
        return _IDENTIFIERS[head[4:8]]
    if head[0] == 0x80 and head[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return TORCH_CHECKPOINT  # a pickle
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 100 << 20:
        return SAFETENSORS
    if tail.endswith(_TABLE_END):
        return CHECKPOINT
    message = _protobuf(head)
    if message is ONNX:  # even if its first bytes pass for text
        return ONNX
    other = ONNX if _is_model_proto(place) else CAFFE if place.suffix == ".prototxt" else None
    return _text(head) or message or other


def looks_like(path: Path) -> str:
    """Return the size and the first bytes of a file, or its text, for messages.

    Raises:
        OSError: If it cannot be read.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        return "the path is not a regular file"
    with open(path, "rb") as file:
        head = file.read(SHOWN)
    if head.isascii() and all(byte >= 32 or byte in b"\t\r\n" for byte in head):
        return f"text that begins with {head.decode().splitlines()[0][:SHOWN]!r}"
    return f"{path.stat().st_size} bytes that begin with {head[:16].hex(' ')}"


def _folder(folder: Path) -> Format:
    if (folder / "saved_model.pb").is_file() or (folder / "saved_model.pbtxt").is_file():
        return SAVED_MODEL
    if (folder / "inference.pdmodel").is_file() or (folder / "__model__").is_file():
        return PADDLE
    if (folder / "config.json").is_file() and (folder / "model.weights.h5").is_file():
        return KERAS
    models = [str(path) for pattern in _MODELS for path in sorted(folder.glob(pattern))][:3]
    if models:
        return Format("a folder", f"name the model inside: {', '.join(models)}")
    if (folder / "config.json").is_file():
        return HUGGING_FACE
    if (folder / "Manifest.json").is_file():
        return CORE_ML
    return Format("a folder", "name the model file")


def _text(head: bytes) -> Format | None:
    if b"\0" in head[:4096]:
        return None
    for pattern, found in _TEXTS:
        if re.search(pattern, head[:65536], re.IGNORECASE | re.MULTILINE | re.DOTALL):
            return found
    return None


def _protobuf(head: bytes) -> Format | None:
    """Return the format of a protobuf message by its first fields."""
    fields = list(_fields(head))
    first: dict[int, int | bytes] = {}
    for number, value in fields:
        first.setdefault(number, value)
    field_1, field_2, field_9 = first.get(1), first.get(2), first.get(9)
    numbers = set(first)
    if isinstance(field_1, int) and isinstance(field_2, bytes):  # a version, then a message; or ONNX's text
        if any(number >= 200 for number in numbers):
            return CORE_ML
        inner = dict(_fields(field_2))
        if 7 not in numbers and isinstance(inner.get(2), bytes):
            return SAVED_MODEL
    if isinstance(field_1, int) and isinstance(first.get(7), bytes):
        return ONNX
    if isinstance(field_2, int) and isinstance(field_9, bytes):
        return ONNX_TENSOR
    if field_1 is None and isinstance(field_2, bytes) and _is_word(dict(_fields(field_2)).get(4)):
        return CAFFE2
    if not isinstance(field_1, bytes):
        return CAFFE_WEIGHTS if 100 in numbers else None
    is_named = field_1.isascii() and field_1.decode().isprintable()  # and no message
    if 100 in numbers and is_named:
        return CAFFE_WEIGHTS
    inner = dict(reversed(list(_fields(field_1))))
    if isinstance(inner.get(1), bytes) and _is_word(inner.get(2)):
        return GRAPH_DEF
    if isinstance(inner.get(1), int) and isinstance(inner.get(2), int) and isinstance(inner.get(3), bytes):
        return PADDLE
    if isinstance(field_2, bytes):
        second = dict(reversed(list(_fields(field_2))))
        nodes = second.get(1)
        if isinstance(nodes, bytes) and _is_word(dict(_fields(nodes)).get(2)):
            return CAFFE_WEIGHTS if is_named else META_GRAPH  # layers of Caffe's oldest version
        if _is_word(second.get(4)) and not isinstance(second.get(5), int):
            return CAFFE2 if _is_word(field_1) or 8 not in second else CAFFE_WEIGHTS
        if is_named and (4 in second or 5 in second):
            return CAFFE_WEIGHTS  # layers of its second version
    return None


def _is_model_proto(path: Path) -> bool:
    """Return whether a file is a message with fields of ONNX's ``ModelProto``.

    The fields may have any order.

    Contents of fields are not read: the graph may come first, and be as large as the file.
    """
    seen: set[int] = set()
    size = path.stat().st_size
    with open(path, "rb") as file:
        position = 0
        for _ in range(MOST_FIELDS):
            if position >= size:
                break
            file.seek(position)
            head = file.read(20)  # a key and a length, of up to ten bytes each
            key, begin = _varint(head, 0)
            kind, number = key & 7, key >> 3
            if kind not in (0, 2) or not 0 < number < 1 << 14:
                return False
            value, begin = _varint(head, begin)
            position += begin + (value if kind == 2 else 0)
            seen.add(number)
    return position == size and {7, 8} <= seen


def _is_word(value: object) -> bool:
    return isinstance(value, bytes) and re.fullmatch(rb"[\w./:-]{1,255}", value) is not None


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of a message's first fields; it may be cut off."""
    position = 0
    for _ in range(256):
        key, position = _varint(data, position)
        kind, number = key & 7, key >> 3
        if position >= len(data) or not 0 < number < 1 << 14:
            return
        if kind == 0:
            value, position = _varint(data, position)
            yield number, value
        elif kind == 2:
            size, position = _varint(data, position)
            yield number, data[position : position + size]
            position += size
        elif kind in (1, 5):
            position += 8 if kind == 1 else 4
            yield number, 0
        else:
            return


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            return 0, position
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return value, position
