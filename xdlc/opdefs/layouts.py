"""The axis order that a definition's layout asks for, of a source whose channels are axis 1."""

from __future__ import annotations

LAYOUTS = ("NHWC", "NCHW", "NHCW")


def order_of(layout: str, rank: int) -> tuple[int, ...]:
    """Return the order of source axes in which an operand lies; without a layout it is the source's.

    Layouts are written for images; of any other number of axes ``NHWC`` means channels last.

    Raises:
        ValueError: If the layout is none for so many axes.

    Example:
        >>> order_of("NHWC", 4), order_of("NHCW", 4), order_of("", 4), order_of("NHWC", 2)
        ((0, 2, 3, 1), (0, 2, 1, 3), (0, 1, 2, 3), (0, 1))
    """
    if layout == "NHWC" and rank > 2:
        return (0, *range(2, rank), 1)
    if layout != "NHCW":
        return tuple(range(rank))
    if rank != 4:
        raise ValueError(f"NHCW is an order of 4 axes, but there are {rank}")
    return (0, 2, 1, 3)
