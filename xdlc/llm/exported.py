"""Decoders that users exported to files, with the inputs of the vendor's runtime.

Sizes come from the shapes of inputs and outputs, the rest from config.json, generation_config.json and the
tokenizer beside the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from glob import escape
from pathlib import Path
from typing import Any

from xdlc.container import load
from xdlc.converter.formats import DLC, recognize
from xdlc.converter.frontends import find_frontend, frontends
from xdlc.errors import ModelError, UnsupportedOp, UsageError
from xdlc.ir import Graph, Model, Op
from xdlc.ir.dtype import BFLOAT16, FLOAT16, FLOAT32, INT32, INT64
from xdlc.llm.calibration import has_map, matters
from xdlc.llm.checkpoint import Checkpoint
from xdlc.llm.checkpoint.folder import assembled
from xdlc.llm.checkpoint.model import stamps_of
from xdlc.llm.checkpoint.texts import json_file, read_texts
from xdlc.llm.decoder import Rope, read_positions, read_rope
from xdlc.llm.forms import Form
from xdlc.llm.genie_rules import check_genie
from xdlc.llm.layout import (
    COSINES,
    IDS,
    LOGITS,
    POSITIONS,
    Length,
    cache_name,
    graphs_of,
    ports,
    shapes_of,
)
from xdlc.llm.network import HEAD, Part, bits_of_ops, map_of
from xdlc.options import Notify, spell
from xdlc.prepare.edit.link import link
from xdlc.quant import quantize
from xdlc.quant.float_types import store_floats

_FAMILY = "decoder"
"""Family of a decoder that no config.json names."""
_DYNAMIC = (
    'export the model with torch.export.Dim("tokens", min=1) for tokens, Dim("past", min=1) for past tokens '
    "and Dim.AUTO for the context, or convert the model for each length and use xdlc link"
)
_TEXTS = ("*.json", "*.jinja")


def is_exported(path: Path) -> bool:
    """Return whether a path is a file with a graph: a model of a framework, or a DLC.

    Files that cannot be read are not.
    """
    try:
        form = recognize(path) if path.is_file() else None
    except OSError:
        return False
    if form is None:
        return False
    return form is DLC or any(frontend.recognizes(path, form) for frontend in frontends().values())


@dataclass(frozen=True, slots=True)
class Sizes:
    """Facts about an exported decoder, as ``xdlc.llm.decoder.Decoder`` has them."""

    type: str
    vocab: int
    layers: int
    kv_heads: int
    head_dim: int
    rope: Rope | None


class Exported:
    """A decoder in a file.

    Attributes:
        positions: Most tokens that it was made for.
    """

    def __init__(self, path: Path) -> None:
        folder = path.parent
        config = json_file(folder, "config.json") or {"model_type": _FAMILY}
        config.pop("quantization_config", None)
        files = {
            path,
            *folder.glob(f"{escape(path.stem)}.*"),
            *(text for form in _TEXTS for text in folder.glob(form)),
        }
        self.checkpoint: Checkpoint = assembled(str(path), config, {}, read_texts(folder), stamps_of(files))
        self.positions: int = read_positions(config)
        self._path = path
        self._open = _stored(path) if recognize(path) is DLC else _converted(path)
        self._models: dict[Length, Model] = {}

    def has(self, length: Length) -> bool:
        """Return whether the file has a graph of a length."""
        try:
            self._model(length, lambda note: None)
        except (UsageError, ModelError):
            return False
        return True

    def lengths(self, lengths: Sequence[Length], notify: Notify) -> Sequence[Length]:
        """Return the lengths that the file has graphs of.

        Raises:
            UsageError: If it has none of prompts of a context.
            ModelError: If it is quantized.
            ConstraintError: If the vendor's runtime would not load a graph; a ProblemList of all reasons.
        """
        refused: dict[Length, UsageError | ModelError] = {}
        for length in lengths:
            try:
                self._model(length, notify)
            except (UsageError, ModelError) as error:
                refused[length] = error
        for length, reason in refused.items():
            if length.tokens == lengths[0].tokens:
                raise UsageError(
                    f"the file has no graph of {_words([length])}: {reason.problem}",
                    where=str(self._path),
                    fix=f"choose the file's {spell('context')} and {spell('prompt_tokens')}, or {_DYNAMIC}",
                ) from reason
            notify(
                f"{self._path} has no graph of {_words([length])}, so the prompt graph processes each "
                f"token: {reason.problem}; {_DYNAMIC}"
            )
        tensors = next(iter(self._models.values())).main.tensors.values()
        if any(tensor.encoding is not None for tensor in tensors):
            raise ModelError(
                "the model is already quantized", where=str(self._path), fix="give the float model"
            )
        check_genie([self._linked([*self._models])])
        return [*self._models]

    def parts(self, form: Form, splits: int | str) -> list[Part]:
        """Return the whole as a part.

        Raises:
            UsageError: If there are to be several.
        """
        if splits not in ("auto", 1):
            raise UsageError(
                f"{spell('splits')} is {splits!r}, but xdlc does not split the graph of a file",
                fix="omit the option, or build the bundle from a Hugging Face folder",
            )
        return [Part(1, 1, range(self.decoder.layers))]

    @cached_property
    def decoder(self) -> Sizes:
        """Facts about the decoder.

        Raises:
            ModelError: If caches have several sizes, or config.json does not fit the graph.
        """
        graph = next(iter(self._models.values())).main
        named = ports(graph)
        caches = [(cache, tensor) for name, tensor in named.items() if (cache := cache_name(name))]
        layers = {cache.layer for cache, _ in caches}
        sizes = {(tensor.shape[0], tensor.shape[2 if cache.is_key else 3]) for cache, tensor in caches}
        if len(sizes) != 1 or layers != set(range(len(layers))):
            raise ModelError(
                f"the model has caches of {len(layers)} layers in {len(sizes)} sizes",
                where=str(self._path),
                fix="number layers from 0, and give all layers caches of equal size",
            )
        ((kv_heads, head_dim),) = sizes
        return Sizes(
            type=str(self.checkpoint.config["model_type"]),
            vocab=named[LOGITS].shape[-1],
            layers=len(layers),
            kv_heads=kv_heads,
            head_dim=head_dim,
            rope=self._rope(head_dim, named[COSINES].shape[-1]) if COSINES in named else None,
        )

    def _rope(self, head_dim: int, pairs: int) -> Rope:
        config = self.checkpoint.config
        if config["model_type"] == _FAMILY:
            raise ModelError(
                f"the model has {COSINES!r}, but no config.json states the angles of this input",
                where=str(self._path),
                fix="write config.json with model.config.save_pretrained(FOLDER) of transformers, or by hand "
                "with model_type, rope_theta, rope_scaling and max_position_embeddings",
            )
        try:
            rope = read_rope(config, head_dim)
        except UnsupportedOp as error:
            fix = f"compute them in the graph, from the input {POSITIONS!r} alone"
            raise UnsupportedOp(error.problem, where=str(self._path), fix=fix) from error
        if rope.dim != 2 * pairs:
            raise ModelError(
                f"config.json rotates {rope.dim} elements of a head, but {COSINES!r} has angles for "
                f"{2 * pairs}",
                where=str(self._path),
                fix="put the config.json of this model next to it",
            )
        return rope

    def floats(self, part: Part) -> Callable[[Length], Model]:
        """Return the function that returns the float model of a length of the file."""
        return lambda length: self._linked([length])

    def maps(self) -> list[str]:
        ops = next(iter(self._models.values())).main.ops
        return list(dict.fromkeys(map_of(op.name) for op in ops if has_map(op)))

    def part(
        self, part: Part, lengths: Sequence[Length], form: Form, bits: Mapping[str, int], notify: Notify
    ) -> Model:
        """Return the model with float activations, with a graph for each length."""
        model = self._linked(lengths)
        for graph in model.graphs.values():
            for tensor in (*graph.inputs, *graph.outputs):
                if tensor.dtype is FLOAT32:
                    tensor.dtype = FLOAT16
        if form.bits == 16:
            for note in [note for graph in model.graphs.values() for note in store_floats(graph, 16)]:
                notify(note)
            return model
        return quantize(
            model,
            (),
            notify=lambda note: notify(note) if matters(note) else None,
            weights_only=True,
            act_bitwidth=16,  # as weights of 16 bits need it, which stay floats
            weights_bitwidth=form.bits,
            weights_bitwidth_of=bits_of_ops(model.main, bits),
            weights_block_size=form.block,
            float_bitwidth=16,
        )

    def _model(self, length: Length, notify: Notify) -> Model:
        """Return the float model of a length, of one graph."""
        if length in self._models:
            return self._models[length]
        model = self._open(length, (lambda note: None) if self._models else notify)
        graph = model.main
        _widen_floats(graph)
        for name in _narrow_indices(graph):
            if not self._models:
                notify(
                    f"{self._path}: input {name!r} is int64; xdlc makes it int32, which the runtime writes"
                )
        for op in [op for op in graph.ops if map_of(op.name) == HEAD]:
            graph.rename_op(op, graph.unique_name(f"own_{op.name}"))
        for number, op in enumerate(_heads(graph)):
            graph.rename_op(op, f"{HEAD}_{number}" if number else HEAD)
        return self._models.setdefault(length, model)

    def _linked(self, lengths: Sequence[Length]) -> Model:
        """Return a copy with the graphs of some lengths, named after these."""
        part = Part(1, 1, range(0))
        names = {f"{self._path} of {_words([length])}": length for length in lengths}
        return link(
            {place: self._models[length] for place, length in names.items()},
            {place: part.graph_name(length) for place, length in names.items()},
            stems={},
            notify=lambda note: None,
        )


def _words(lengths: Sequence[Length]) -> str:
    return " and ".join(f"{length.tokens} token(s) in a context of {length.context}" for length in lengths)


def _stored(path: Path) -> Callable[[Length, Notify], Model]:
    """Return the function that returns a graph of a DLC by its length."""
    model = load(path)
    graphs = graphs_of(model)
    if not graphs:
        problem, fix = "the DLC has no graph, only caches", "give the DLC before it was prepared"
        raise UsageError(problem, where=str(path), fix=fix)

    def open_length(length: Length, notify: Notify) -> Model:
        if length not in graphs:
            raise UsageError(f"its graphs are of {_words([*graphs])}", where=str(path))
        metadata = {name: value for name, value in model.metadata.items() if name != "states"}
        return Model({graphs[length].name: graphs[length]}, metadata).clone()

    return open_length


def _converted(path: Path) -> Callable[[Length, Notify], Model]:
    """Return the function that converts a file for a length."""
    frontend = find_frontend(path)
    inputs = frontend.source_model(path).graph.inputs
    dims: Mapping[str, Sequence[Any]] = {entry.name: entry.dims for entry in inputs if entry.dims is not None}

    def open_length(length: Length, notify: Notify) -> Model:
        shapes = {
            name: [own if size is None else size for own, size in zip(dims[name], shape, strict=True)]
            for name, shape in shapes_of(dims, length.tokens, length.context).items()
            if len(dims[name]) == len(shape)
        }
        stated = {
            name: [size if isinstance(size, int) else -1 for size in shape] for name, shape in shapes.items()
        }
        return frontend.convert(path, input_dims=stated, notify=notify)

    return open_length


def _widen_floats(graph: Graph) -> None:
    """Make floats of 16 bits floats of 32, which forms of weights begin with."""
    for tensor in graph.tensors.values():
        if tensor.dtype in (FLOAT16, BFLOAT16):
            tensor.dtype = FLOAT32
            if tensor.data is not None:
                tensor.data = tensor.data.cast(FLOAT32.numpy)
    for op in list(graph.ops):
        if op.type == "Cast" and (source := op.inputs[0]) is not None:
            result = op.outputs[0]
            if source.dtype is result.dtype is FLOAT32 and not graph.is_output(result):
                graph.replace(result, source)
                graph.remove(op)


def _narrow_indices(graph: Graph) -> Iterator[str]:
    """Make inputs of 64 bits int32 that only casts to it read; yield their names."""
    for tensor in graph.inputs:
        casts = graph.consumers(tensor)
        if tensor.name not in (IDS, POSITIONS) or tensor.dtype is not INT64:
            continue
        if all(op.type == "Cast" and op.outputs[0].dtype is INT32 for op in casts):
            tensor.dtype = INT32
            for op in casts:
                graph.replace(op.outputs[0], tensor)
                graph.remove(op)
            yield tensor.name


def _heads(graph: Graph) -> Iterator[Op]:
    """Yield the ops whose weights logits are computed with, last."""
    waiting = [tensor.producer for tensor in graph.outputs if tensor.name == LOGITS]
    seen: set[int] = set()
    while waiting:
        op = waiting.pop()
        if op is None or id(op) in seen:
            continue
        seen.add(id(op))
        if has_map(op):
            yield op
        else:
            waiting += [tensor.producer for tensor in op.inputs if tensor is not None]
