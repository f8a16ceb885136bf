"""Files of Keras: the architecture, and weights by role as lazy ranges.

A ``.keras`` file is a zip archive of ``config.json`` and ``model.weights.h5``, or a folder of these; an
``.h5`` file holds the architecture in the attribute ``model_config`` and the weights in the group
``model_weights``.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from xdlc import ir
from xdlc.converter.hdf5 import Hdf5, unreadable
from xdlc.converter.keras.calls import invalid
from xdlc.converter.keras.layers import EXPORT, INPUT, Layer
from xdlc.converter.keras.registry import handler
from xdlc.errors import ModelError, UnsupportedOp
from xdlc.ir.files import open_file
from xdlc.ir.zip_files import open_zip
from xdlc.json_fields import json_value

METADATA, CONFIG, WEIGHTS = "metadata.json", "config.json", "model.weights.h5"
_TEXT_LIMIT = 1 << 24
"""Most bytes of an architecture as JSON."""
_RATIO = 64
"""How much larger than its compressed form a member of an archive may be."""
_AGAIN = "save the model again with model.save"
_LOCAL_HEADER = 30  # bytes of a local file header before the name (APPNOTE.TXT 4.3.7)


class KerasFile:
    """A file of Keras.

    Attributes:
        model: The serialized model: ``class_name``, ``config`` and more.
        weights: The HDF5 file with the weights.
        is_legacy: Whether the weights are by layer and name, in the group ``model_weights``.
        version: Version of Keras that wrote the file; empty if it states none.

    Raises:
        ModelError: If it is damaged or no whole model.
        UsageError: If h5py is not installed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.is_legacy = False
        text: bytes | str
        stated: bytes | str
        if self.path.is_dir():
            text, stated = self._read_folder()
        else:
            source = ir.MappedFile(self.path)
            self.is_legacy = bytes(source.view(0, 4)) != b"PK\x03\x04"
            text, stated = self._read_hdf5(source) if self.is_legacy else self._read_archive(source)
        self.model = _parsed(text, str(path))
        version = stated if isinstance(stated, str) else _parsed(stated, str(path)).get("keras_version")
        self.version = str(version or "")
        if self.version.startswith("1."):
            raise ModelError(
                "the model was saved by Keras 1, which xdlc does not read",
                where=str(path),
                fix="save the model again with Keras 2 or 3",
            )

    def _read_hdf5(self, source: ir.MappedFile) -> tuple[str, str]:
        """Return the architecture and the version of Keras."""
        self.weights = Hdf5(source, 0, source.size, str(self.path), "keras")
        text = self.weights.text("model_config")
        if text is None:
            raise ModelError(
                "the file contains weights, but no architecture",
                where=str(self.path),
                fix="run model.load_weights(file), and model.save('model.keras')",
            )
        return text, self.weights.text("keras_version") or ""

    def _read_archive(self, source: ir.MappedFile) -> tuple[bytes, bytes]:
        """Return the architecture and the metadata."""
        with _damage(str(self.path)), open_file(self.path) as file, open_zip(file) as archive:
            members = {entry.filename: entry for entry in archive.infolist()}
            text = self._text(archive, members, CONFIG)
            stated = self._text(archive, members, METADATA) if METADATA in members else b"{}"
            self.weights = self._weights(archive, members, source)
        return text, stated

    def _read_folder(self) -> tuple[bytes, bytes]:
        """Return the architecture and the metadata of an archive that is unpacked."""
        source = ir.MappedFile(self.path / WEIGHTS)
        self.weights = Hdf5(source, 0, source.size, str(self.path / WEIGHTS), "keras")
        texts = []
        for name in (CONFIG, METADATA):
            held = ir.MappedFile(self.path / name) if (self.path / name).is_file() else None
            texts.append(b"{}" if held is None else bytes(held.view(0, min(held.size, _TEXT_LIMIT + 1))))
        return texts[0], texts[1]

    def _text(self, archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], name: str) -> bytes:
        entry = members.get(name)
        if entry is None:
            raise ModelError(f"the file has no {name}", where=str(self.path), fix=_AGAIN)
        if entry.file_size > _TEXT_LIMIT:
            raise ModelError(
                f"{name} has {entry.file_size} bytes; xdlc reads at most {_TEXT_LIMIT}",
                where=str(self.path),
                fix=_AGAIN,
            )
        with archive.open(entry) as file:
            return file.read(_TEXT_LIMIT)

    def _weights(
        self, archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], source: ir.MappedFile
    ) -> Hdf5:
        """Return the weights file of an archive, mapped in place if it is uncompressed."""
        entry, where = members.get(WEIGHTS), f"{self.path}: {WEIGHTS}"
        if entry is None:
            raise ModelError(f"the file has no {WEIGHTS}", where=str(self.path), fix=_AGAIN)
        if entry.compress_type == zipfile.ZIP_STORED:
            header = bytes(source.view(entry.header_offset, _LOCAL_HEADER))
            archive.open(entry).close()  # checks the header
            start = entry.header_offset + _LOCAL_HEADER
            start += int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
            if start + entry.file_size > source.size or entry.file_size != entry.compress_size:
                raise ModelError("the file is truncated", where=where, fix=_AGAIN)
            return Hdf5(source, start, entry.file_size, where, "keras")
        if entry.file_size > max(entry.compress_size, 1 << 10) * _RATIO:
            raise ModelError(
                f"{entry.compress_size} bytes unpack to {entry.file_size} bytes, which is too many",
                where=where,
                fix="save the model again, without compression",
            )
        unpacked = _unpacked(archive, entry)
        return Hdf5(unpacked, 0, unpacked.size, where, "keras")


def _unpacked(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> ir.MappedFile:
    """Return a member unpacked to an unnamed file, deleted after its last use."""
    with tempfile.NamedTemporaryFile(prefix="xdlc-", suffix=".h5") as target:
        left = entry.file_size
        with archive.open(entry) as file:
            while left > 0 and (block := file.read(min(1 << 20, left))):
                target.write(block)
                left -= len(block)
        target.flush()
        return ir.MappedFile(target.name)


def _parsed(text: bytes | str, where: str) -> dict[str, Any]:
    """Return the serialized model of a JSON text.

    Raises:
        ModelError: If it is not one.
    """
    if len(text) > _TEXT_LIMIT:
        raise ModelError(
            f"the architecture has {len(text)} bytes; xdlc reads at most {_TEXT_LIMIT}",
            where=where,
            fix=_AGAIN,
        )
    try:
        model = json_value(text if isinstance(text, str) else text.decode())
    except ValueError as error:
        raise ModelError(f"the architecture is not valid JSON: {error}", where=where, fix=_AGAIN) from error
    if not isinstance(model, dict):
        raise ModelError("the architecture is not a JSON object", where=where, fix=_AGAIN)
    return model


@contextmanager
def _damage(where: str) -> Iterator[None]:
    """Raise a ModelError in place of errors of a damaged archive.

    Raises:
        ModelError: In their place.
    """
    try:
        yield
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        RuntimeError,
        ValueError,
        LookupError,
    ) as error:
        raise unreadable("the archive", error, where) from error


_LEGACY = "model_weights"
_BIASED, _SCALED = "kernel bias?use_bias", "gamma?scale beta?center"
_RNN = "cell/kernel cell/recurrent_kernel cell/bias?use_bias"
_HEADS = "query_dense key_dense value_dense"
_ROLES = {
    **dict.fromkeys(("Dense", "SimpleRNNCell"), _BIASED),
    **{f"Conv{rank}D{kind}": _BIASED for rank in (1, 2, 3) for kind in ("", "Transpose")},
    **{f"DepthwiseConv{rank}D": _BIASED for rank in (1, 2)},
    **{f"SeparableConv{rank}D": "depthwise_kernel pointwise_kernel bias?use_bias" for rank in (1, 2)},
    **dict.fromkeys(("LSTMCell", "GRUCell", "SimpleRNNCell"), "kernel recurrent_kernel bias?use_bias"),
    **dict.fromkeys(("LSTM", "GRU", "SimpleRNN", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"), _RNN),
    **dict.fromkeys(("CuDNNLSTM", "CuDNNGRU"), "kernel recurrent_kernel bias"),
    "EinsumDense": "kernel bias?bias_axes",
    "Embedding": "embeddings",
    "BatchNormalization": f"{_SCALED} ~moving_mean ~moving_variance",
    "LayerNormalization": _SCALED,
    "GroupNormalization": _SCALED,
    "RMSNormalization": "scale",
    "PReLU": "alpha",
    "Normalization": "~mean?!mean ~variance?!mean ~count?!mean",
    "Attention": "scale?use_scale concat_score_weight?score_mode=concat",
    "AdditiveAttention": "scale?use_scale",
    **dict.fromkeys(
        ("MultiHeadAttention", "GroupQueryAttention"),
        " ".join(f"{part}/kernel {part}/bias?use_bias" for part in (*_HEADS.split(), "output_dense")),
    ),
    "SpectralNormalization": "~vector_u",
    "LayerScale": "gamma",
}
"""Weights of each class in the order of their creation: ``~`` is not trained, ``?`` needs an option."""
_OFF_BY_DEFAULT = ("bias_axes", "use_scale", "mean")
_GATED = "gate_dense/kernel gate_dense/bias?use_bias"


class Role(NamedTuple):
    """A weight of a layer.

    Attributes:
        name: Its name, like ``kernel`` or ``cell/kernel``.
        trained: Whether training changes it.
    """

    name: str
    trained: bool


def roles(layer: Layer) -> Iterator[Role]:
    """Yield the weights that a layer has itself, in the order of their creation."""
    text = _ROLES.get(layer.kind, "")
    if layer.config.get("use_gate") and layer.kind == "MultiHeadAttention":
        text = text.replace("value_dense/kernel", f"{_GATED} value_dense/kernel")
    for word in text.split():
        name, _, option = word.removeprefix("~").partition("?")
        if not option or _is_on(layer.config, option):
            yield Role(name, not word.startswith("~"))


def _is_on(config: Mapping[str, Any], option: str) -> bool:
    key, _, wanted = option.partition("=")
    if wanted:
        return config.get(key) == wanted
    name = key.removeprefix("!")
    value = config.get(name, name not in _OFF_BY_DEFAULT)
    is_set = value is not None and value is not False and value != ""
    return is_set != key.startswith("!")


def bind(model: Layer, file: Hdf5, *, is_legacy: bool) -> dict[Layer, dict[str, ir.TensorData]]:
    """Return the weights of each layer by role, floats as float32.

    Args:
        is_legacy: Whether they are by layer and order, in the group ``model_weights``.

    Raises:
        ModelError: If some are missing or do not fit.
        UnsupportedOp: If a type is not numeric.
    """
    found = _by_layer(model, file) if is_legacy else _by_group(model, file)
    return {
        layer: {name: data.cast(np.float32) if _is_float(data) else data for name, data in weights.items()}
        for layer, weights in found.items()
    }


def _is_float(data: ir.TensorData) -> bool:
    return data.dtype.kind == "f" or data.dtype.name == "bfloat16"


def _by_group(model: Layer, file: Hdf5) -> dict[Layer, dict[str, ir.TensorData]]:
    """Return the weights of a ``.keras`` file: ``<path>/vars/0`` and so on."""
    top = "layers" if file.has("layers") else "_layer_checkpoint_dependencies"
    by_layer: dict[Layer, dict[str, ir.TensorData]] = {}
    alias = _first_places(model)
    for layer in model.walk():
        place = top + layer.path.removeprefix("layers")
        counts: dict[str, int] = {}
        layer_weights: dict[str, ir.TensorData] = {}
        for role in roles(layer):
            part = role.name.rpartition("/")[0]
            counts[part] = counts.get(part, -1) + 1
            candidates = [f"{place}/{part}" if part else place, f"{place}/_{part}"]
            data = next(filter(None, (_vars(file, path, counts[part]) for path in candidates)), None)
            if data is None:
                layer_weights = by_layer.get(alias[layer], {})
                if not layer_weights:
                    raise invalid(f"the layer has no weight {role.name!r} at {place!r}", layer.place)
                break
            layer_weights[role.name] = data
        by_layer[layer] = layer_weights
    return by_layer


def _first_places(model: Layer) -> dict[Layer, Layer]:
    """Return for each layer the first of its class and name, which has the weights."""
    first: dict[tuple[str, str], Layer] = {}
    return {layer: first.setdefault((layer.kind, layer.name), layer) for layer in model.walk()}


def _vars(file: Hdf5, path: str, number: int) -> ir.TensorData | None:
    return file.data(f"{path}/vars/{number}")


def _by_layer(model: Layer, file: Hdf5) -> dict[Layer, dict[str, ir.TensorData]]:
    """Return an ``.h5`` file's weights by layer, trainable ones first."""
    by_layer: dict[Layer, dict[str, ir.TensorData]] = {layer: {} for layer in model.walk()}
    names = set(file.names(_LEGACY, "layer_names"))
    for top in model.inner:
        expected = [(layer, role) for layer in top.walk() for role in roles(layer)]
        if not expected or top.domain:
            continue
        unknown = [layer for layer in top.walk() if not _is_known(layer)]
        if unknown and top is not unknown[0]:
            raise UnsupportedOp(
                f"xdlc does not support the layer class {unknown[0].kind}", where=unknown[0].place, fix=EXPORT
            )
        if unknown:
            continue
        if top.name not in names:
            raise invalid("the layer has no weights in the file", top.place)
        group = f"{_LEGACY}/{top.name}"
        stored = file.names(group, "weight_names")
        stored = [name for name in stored if not name.endswith(("seed_generator_state", "/count:0x"))]
        if len(stored) != len(expected):
            raise invalid(
                f"the layer has {len(stored)} weights in the file, but its layers require {len(expected)}",
                top.place,
            )
        order: Callable[[tuple[Layer, Role]], bool] = lambda pair: not (pair[0].trainable and pair[1].trained)  # noqa: E731
        for (layer, role), name in zip(sorted(expected, key=order), stored, strict=True):
            _check_name(role, name, layer)
            data = file.data(f"{group}/{name}")
            if data is None:
                raise invalid(f"the layer has no weight {name!r}", layer.place)
            by_layer[layer][role.name] = data
    return by_layer


def _is_known(layer: Layer) -> bool:
    if layer.is_model or layer.kind in (*_ROLES, INPUT, "StackedRNNCells"):
        return True
    return handler.knows(layer.domain, layer.kind)


def _check_name(role: Role, name: str, layer: Layer) -> None:
    """Refuse a weight whose stored name belongs to another weight of the layer.

    Raises:
        ModelError: If it is.
    """
    last = name.rpartition("/")[2].partition(":")[0]
    own = {each.name.rpartition("/")[2] for each in roles(layer)}
    if last in own and last != role.name.rpartition("/")[2]:
        raise invalid(f"the file has weight {name!r} in the place of {role.name!r}", layer.place)


def check_policy(layer: Layer) -> str | None:
    """Return the type in which a layer computes, if that is not float32.

    Raises:
        UnsupportedOp: If it is quantized.
    """
    policy = layer.config.get("dtype")
    if isinstance(policy, dict):
        if "Quantized" in str(policy.get("class_name")) or (policy.get("config") or {}).get(
            "quantization_mode"
        ):
            raise UnsupportedOp(
                "xdlc does not read weights that Keras quantized",
                where=layer.place,
                fix="convert the float model, and quantize the DLC: `xdlc quantize`",
            )
        config = policy.get("config")
        policy = config.get("name") if isinstance(config, dict) else None
    if not isinstance(policy, str | None):
        raise invalid(f"the layer has the invalid type {policy!r:.40}", layer.place)
    name = policy or "float32"
    if name.startswith(("int8", "float8", "int4", "gptq", "awq")) and "_from_" in name:
        raise UnsupportedOp("xdlc does not read weights that Keras quantized", where=layer.place, fix=EXPORT)
    name = name.removeprefix("mixed_")
    return name if name in ("float16", "bfloat16", "float64") else None
