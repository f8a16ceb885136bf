"""Mutations of JSON and XML documents as trees."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any

from lxml import etree

from fuzz.mutate.plain import mutate_bytes, mutate_text
from fuzz.mutate.values import FLOATS, INTEGERS, TEXTS


def _junk(rng: random.Random) -> Any:
    """Return a value of JSON of any type."""
    value: Any = rng.choice(
        (rng.choice((*INTEGERS, *FLOATS)), rng.choice(TEXTS), None, True, False, [], {}, 10**400)
    )
    return rng.choice((value, value, [value] * rng.choice((1, 3)), {rng.choice(TEXTS): value}))


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
        item, kind = holder[key], rng.randrange(9)
        if kind == 0 and holder is not top:
            del holder[key]
        elif kind == 1 and isinstance(holder, list):
            holder += [item] * rng.choice((1, 1, 2, 50))
        elif kind == 2 and isinstance(item, dict):
            item[rng.choice(TEXTS)] = _junk(rng)
        elif kind in (2, 3) and isinstance(item, str):
            holder[key] = mutate_text(rng, item)
        elif kind in (2, 3, 4) and isinstance(item, int | float) and abs(item) < 1e300:
            holder[key] = rng.choice(
                (-item, str(item), item * 2, item + 1, item / 2, *rng.choices(INTEGERS, k=4))
            )
        elif kind in (4, 5):
            source, which = rng.choice(places)
            if which in source if isinstance(source, dict) else which < len(source):
                holder[key] = copy.deepcopy(source[which])
        elif kind == 6 and isinstance(holder, dict) and holder is not top:
            holder[rng.choice((rng.choice(TEXTS), mutate_text(rng, key)))] = holder.pop(key)
        elif kind == 7 and rng.random() < 0.1:
            for _ in range(rng.choice((5, 200, 900))):
                item = rng.choice(([item], [item], {"a": item}))
            holder[key] = item
        else:
            holder[key] = _junk(rng)
    return top[""]


def mutate_json(rng: random.Random, data: bytes, donor: bytes = b"") -> bytes:
    """Return a JSON document with a few changes, rarely of its bytes."""
    try:
        made = mutate_tree(rng, json.loads(data)) if rng.random() < 0.95 else None
        return json.dumps(made, ensure_ascii=rng.random() < 0.8).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return mutate_bytes(rng, data, donor)


def mutate_xml(rng: random.Random, data: bytes, donor: bytes = b"") -> bytes:
    """Return an XML document with a few changes of its tree or text."""
    try:
        root = etree.fromstring(data, etree.XMLParser(resolve_entities=False, no_network=True))
        made = _element(mutate_tree(rng, _lists(root))) if rng.random() < 0.85 else None
    except (etree.XMLSyntaxError, ValueError, TypeError, LookupError, RecursionError):
        made = None
    if made is not None:
        return bytes(etree.tostring(made, encoding="UTF-8"))
    texts = (each.decode("utf-8", "replace") for each in (data, donor))
    return mutate_text(rng, *texts).encode("utf-8", "surrogatepass")


def _lists(element: Any) -> list[Any]:
    return [
        element.tag,
        dict(element.attrib),
        element.text,
        [_lists(each) for each in element.iterchildren("*")],
    ]


def _element(held: list[Any]) -> Any:
    """Return an element from a name, attributes, text and children, if valid."""
    made = etree.Element(str(held[0]), {key: str(value) for key, value in dict(held[1]).items()})
    made.text = None if held[2] is None else str(held[2])
    made.extend(_element(each) for each in held[3] if isinstance(each, list) and len(each) == 4)
    return made
