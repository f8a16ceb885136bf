"""Registry of handlers of Caffe layers, and readers of their parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xdlc.converter.operators.dispatch import Operators
from xdlc.converter.operators.registry import Handlers
from xdlc.converter.protobuf_text import Message, Word
from xdlc.converter.session.node import Node
from xdlc.converter.values import Value
from xdlc.errors import ModelError, nearest_names
from xdlc.options import spell

_WITHOUT_EFFECT = ("engine", "force_nd_im2col", "share_in_parallel")
"""Parameters of any layer that choose an implementation."""
_OF_THE_TYPE = ("python_param.module", "python_param.layer")


class CaffeHandlers(Handlers):
    """Handlers of Caffe layers, which ignore fillers and implementation choices."""

    def is_optional(self, attribute: str) -> bool:
        """Return whether a parameter has no meaning at inference, or is in the type."""
        *outer, name = attribute.split(".")
        is_filler = any(part.endswith("filler") for part in outer)
        return is_filler or name in _WITHOUT_EFFECT or attribute in _OF_THE_TYPE


layer = CaffeHandlers("xdlc.converter.caffe.layers")


_TRUE = ("true", "True", "t", "1")
_FALSE = ("false", "False", "f", "0")
_LARGEST = 1 << 31
MANY = 1 << 10
"""Most bottoms of layers that take any number of them."""
_CORRECT = "correct the layer in the net's text"


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of a net, the ``message`` of its node.

    Attributes:
        fields: Its fields in the text.
        bottoms: Number of its bottoms, which are the first inputs of the node.
        blobs: Number of its weights, which are the others.
        weights: Returns what the errors of missing weights state: the file, and why they are missing.
    """

    fields: Message
    bottoms: int
    blobs: int
    weights: Callable[[], str] = str


def misfit(problem: str) -> ModelError:
    """Return the error of a layer that contradicts itself or its bottoms."""
    return ModelError(problem, fix=_CORRECT)


def bottoms(node: Node, least: int, most: int | None = None, *, rank: int | None = None) -> list[Value]:
    """Return the bottoms of a layer.

    Args:
        least: The least number of bottoms.
        most: The largest; default: the least.
        rank: Number of axes of the first; default: any.

    Raises:
        ModelError: If the layer has fewer or more, or the first has other axes.
    """
    layer: Layer = node.message
    most = least if most is None else most
    if not least <= layer.bottoms <= most:
        wanted = str(least) if most == least else f"{least} to {most}"
        own = f"; or define {node.type} as a user-defined operation" if "." in node.type else ""
        raise ModelError(f"the layer needs {wanted} bottom(s), but has {layer.bottoms}", fix=_CORRECT + own)
    found = [node.required(index) for index in range(layer.bottoms)]
    if rank is not None and found[0].rank != rank:
        raise misfit(f"the layer needs a bottom of {rank} axes, but its bottom has {found[0].rank}")
    return found


def weights(node: Node, g: Operators, *shapes: Sequence[int]) -> list[Value]:
    """Return the weights of a layer, in the shapes that its parameters imply.

    Weights may have further or fewer dimensions of 1, as those of old files do (``1 1 N K``).

    Args:
        shapes: Shape of each.

    Raises:
        ModelError: If there are none, fewer or more, or one does not fit its shape.
    """
    layer: Layer = node.message
    if not layer.blobs and shapes:
        sizes = " and ".join(str(list(shape)) for shape in shapes)
        fix = f"pass the file that was trained with this net: {spell('weights')} FILE.caffemodel"
        raise ModelError(f"the layer needs weights {sizes}, but {layer.weights() or 'has none'}", fix=fix)
    if layer.blobs != len(shapes):
        raise ModelError(
            f"the layer has {layer.blobs} blobs of weights, but its parameters imply {len(shapes)}",
            fix="correct the parameters, such as bias_term, or pass the weights of this net",
        )
    reshaped = []
    for index, shape in enumerate(shapes):
        value = node.required(layer.bottoms + index)
        if [size for size in value.shape if size != 1] != [size for size in shape if size != 1]:
            raise ModelError(
                f"weight blob {index} of the layer has shape {list(value.shape)}, but the parameters imply "
                f"{list(shape)}",
                fix="correct the parameters, or pass the weights of this net",
            )
        reshaped.append(value if value.shape == tuple(shape) else g.builder.reshape(value, shape))
    return reshaped


class Params:
    """Parameters of a layer under one name, like ``convolution_param``.

    Args:
        name: Name of the field; empty for the fields of the layer itself.
    """

    def __init__(self, node: Node, name: str) -> None:
        self._node = node
        self._prefix = f"{name}." if name else ""

    def has(self, *names: str) -> bool:
        """Return whether the layer states any of some parameters."""
        return any(f"{self._prefix}{name}" in self._node.attributes for name in names)

    def integer(self, name: str, default: int | None = None, *, least: int = -_LARGEST) -> int:
        """Return an integer.

        Raises:
            ModelError: If it is not an integer, below ``least``, or omitted without a default.
        """
        return self._integer(name, self._one(name, default), least)

    def integers(self, name: str, *, least: int = -_LARGEST) -> list[int]:
        """Return the integers of a repeated parameter; empty if it is omitted.

        Raises:
            ModelError: If one is not an integer, or below ``least``.
        """
        return [self._integer(name, value, least) for value in self._all(name)]

    def number(
        self, name: str, default: float | None = None, *, above: float | None = None, finite: bool = True
    ) -> float:
        """Return a number, rounded to float32 like in Caffe's messages.

        Raises:
            ModelError: If it is not a number, not above a limit, infinite, or omitted without a default.
        """
        return self._real(name, self._one(name, default), above, finite)

    def numbers(self, name: str, *, above: float | None = None) -> list[float]:
        """Return the numbers of a repeated parameter; empty if it is omitted.

        Raises:
            ModelError: If one is not a number, not above a limit, or infinite.
        """
        return [self._real(name, value, above, True) for value in self._all(name)]

    def flag(self, name: str, default: bool) -> bool:
        """Return a truth value.

        Raises:
            ModelError: If it is not true or false.
        """
        value = self._one(name, default)
        if isinstance(value, bool):
            return value
        text = str(value)
        if isinstance(value, (Word, int)) and text in _TRUE + _FALSE:
            return text in _TRUE
        raise self._wrong(name, value, "true or false")

    def word(self, name: str, values: Mapping[str, int], default: str) -> str:
        """Return the name of an enum value; the text may state its number.

        Args:
            values: Numbers of the values by name.
            default: The value if it is omitted.

        Raises:
            ModelError: If it is another.
        """
        value = self._one(name, Word(default))
        for word, number in values.items():
            if value == (word if isinstance(value, Word) else number):
                return word
        raise self._wrong(name, value, " or ".join(values))

    def text(self, name: str, default: str | None = None) -> str:
        """Return a string.

        Raises:
            ModelError: If it is not a string, or omitted without a default.
        """
        value = self._one(name, default)
        if not isinstance(value, str) or isinstance(value, Word):
            raise self._wrong(name, value, "a string in quotes")
        return value

    def sizes(
        self,
        name: str,
        rank: int,
        default: int,
        *,
        least: int = 0,
        h_and_w: str | None = None,
        both: bool = False,
    ) -> list[int]:
        """Return one integer per spatial axis: ``name``, or its parts ``_h`` and ``_w``.

        Args:
            name: Name of the repeated parameter: one value for all axes, or one each.
            rank: Number of spatial axes.
            default: The value of axes without one.
            h_and_w: Common part of the names of the parts: ``kernel`` for ``kernel_size``; default: ``name``.
            both: Refuse one of the parts alone, where others have the default.

        Raises:
            ModelError: If there is another number of values, both spellings, or half of one.
        """
        stem = h_and_w or name
        parts = [f"{stem}_h", f"{stem}_w"]
        if self.has(*parts):
            if self.has(name):
                raise misfit(f"the layer has {name}, and {stem}_h or {stem}_w: remove one")
            if rank != 2:
                raise ModelError(
                    f"the layer has {stem}_h and {stem}_w, but {rank} spatial axes", fix=f"use {name} instead"
                )
            if both and not all(map(self.has, parts)):
                raise misfit(f"the layer needs both {parts[0]} and {parts[1]}, but has one of them")
            return [self.integer(part, default, least=least) for part in parts]
        values = self.integers(name, least=least) or [default]
        if len(values) not in (1, rank):
            raise misfit(f"the layer has {len(values)} values of {name}, but {rank} spatial axes")
        return values * rank if len(values) == 1 else values

    def lacks(self, name: str) -> ModelError:
        """Return the error of a missing parameter, with similarly spelled names."""
        near = nearest_names(self._prefix + name, self._node.attributes, most=1, cutoff=0.85)
        fix = _CORRECT + near.replace("nearest: ", ", which states ")
        return ModelError(f"the layer has no {self._prefix}{name}", fix=fix)

    def _all(self, name: str) -> list[Any]:
        value = self._node.attr(f"{self._prefix}{name}", [])
        return value if isinstance(value, list) else [value]

    def _one(self, name: str, default: Any) -> Any:
        value = self._node.attr(f"{self._prefix}{name}", default)
        if value is None:
            raise self.lacks(name)
        if isinstance(value, list):
            raise misfit(f"the layer has {self._prefix}{name} {len(value)} times")
        return value

    def _integer(self, name: str, value: Any, least: int) -> int:
        if not isinstance(value, int) or not max(least, -_LARGEST) <= value < _LARGEST:
            raise self._wrong(
                name, value, f"an integer of {least} or more" if least > -_LARGEST else "an integer"
            )
        return value

    def _real(self, name: str, value: Any, above: float | None, finite: bool) -> float:
        if not isinstance(value, (int, float)) or math.isnan(value):
            raise self._wrong(name, value, "a number")
        with np.errstate(over="ignore"):
            found = float(np.float32(value))
        if (finite and math.isinf(found)) or (above is not None and found <= above):
            raise self._wrong(name, value, "finite" if above is None else f"finite and above {above:g}")
        return found

    def _wrong(self, name: str, value: Any, wanted: str) -> ModelError:
        shown = str(value)[:40]
        return ModelError(f"{self._prefix}{name} must be {wanted}, but is {shown}", fix=_CORRECT)


params = Params
