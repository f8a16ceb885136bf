"""What differs between two models, as lines."""

from __future__ import annotations

from collections.abc import Sequence

from xdlc.diff import diff
from xdlc.ir import Graph, Model


def differences(first: Model | Graph, second: Model | Graph, ignore: Sequence[str] = ()) -> list[str]:
    """Return a line for each difference of two models or graphs.

    Args:
        ignore: Kinds of differences that do not count.
    """
    models = [each if isinstance(each, Model) else Model({each.name: each}) for each in (first, second)]
    result = diff(models[0], models[1], ignore=ignore)
    return [] if result.is_equal else list(result.lines())
