"""Mutations of JSON documents as trees."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from typing import Any

from lxml import etree

from fuzz.mutate.plain import mutate_bytes, mutate_text
from fuzz.mutate.values import FLOATS, INTEGERS, TEXTS, junk


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Iterate over holders and keys of all values in a tree."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def mutate_tree(rng: random.Random, root: Any) -> Any:
    """Return a tree of JSON with a few changes; the tree itself is changed too."""
    top = {"": root}
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = list(_places(top))
        holder, key = rng.choice(places)
        held, kind = holder[key], rng.randrange(11)
        number = isinstance(held, int | float) and not isinstance(held, bool)
        if kind == 0 and holder is not top:
            del holder[key]
        elif kind == 1 and isinstance(holder, list):
            holder += [held] * rng.choice((1, 1, 2, 50))
        elif kind == 2 and isinstance(held, dict):
            held[rng.choice(TEXTS)] = junk(rng)
        elif kind in (2, 3) and isinstance(held, str):
            holder[key] = mutate_text(rng, held)
        elif kind in (3, 4) and number:
            near = (-held, str(held), held * 2, held + 1, held - 1, held / 2) if abs(held) < 1e300 else ()
            holder[key] = rng.choice((*near, *rng.choices(INTEGERS, k=5), *rng.choices(FLOATS, k=2)))
        elif kind in (5, 6):
            source, which = rng.choice(places)
            if which in source if isinstance(source, dict) else which < len(source):
                holder[key] = json.loads(json.dumps(source[which]))
        elif kind == 7 and isinstance(holder, dict) and holder is not top:
            holder[rng.choice(TEXTS) if rng.random() < 0.5 else mutate_text(rng, key)] = holder.pop(key)
        elif kind == 8 and isinstance(holder, list):
            rng.shuffle(holder)
        elif kind == 9 and rng.random() < 0.1:
            for _ in range(rng.choice((5, 200, 900))):
                held = [held] if rng.random() < 0.8 else {"a": held}
            holder[key] = held
        else:
            holder[key] = junk(rng)
    return top[""]


def mutate_json(rng: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """Return a JSON document with a few changes, rarely of its text."""
    try:
        root = json.loads(data) if rng.random() < 0.95 else None
    except ValueError:
        root = None
    if root is None:
        return mutate_bytes(rng, data, other)
    text = json.dumps(mutate_tree(rng, root), ensure_ascii=rng.random() < 0.8)
    if rng.random() < 0.03:
        text = re.sub(r'"(\w+)":', r'"\1": 1, "\1":', text, count=1)
    return text.encode("utf-8", "surrogatepass")


def mutate_xml(rng: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """Return an XML document with a few changes, of its elements as a tree or of its text."""
    try:
        root = etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True))
        made = _element(mutate_tree(rng, _lists(root))) if rng.random() < 0.85 else None
    except (etree.XMLSyntaxError, ValueError, TypeError, RecursionError):
        made = None
    if made is None:
        texts = (each.decode("utf-8", "replace") for each in (data, other))
        return mutate_text(rng, *texts).encode("utf-8", "surrogatepass")
    return bytes(etree.tostring(made, encoding="UTF-8"))


def _lists(element: Any) -> list[Any]:
    return [
        element.tag,
        dict(element.attrib),
        element.text,
        [_lists(each) for each in element.iterchildren("*")],
    ]


def _element(held: list[Any]) -> Any:
    """Return the element of a name, attributes, a text and elements; what is none is dropped."""
    made = etree.Element(str(held[0]), {key: str(value) for key, value in dict(held[1]).items()})
    made.text = None if held[2] is None else str(held[2])
    made.extend(_element(each) for each in held[3] if isinstance(each, list) and len(each) == 4)
    return made
