"""Resampling: Resize, GridSample, RoiAlign."""

from __future__ import annotations

import numpy as np

from fuzz.sweep.draft import Draft, family


@family("resize")
def resize(d: Draft) -> None:
    """Draw a Resize of an image to other sizes."""
    d.opset = 19
    shape = (d.pick(1, 1, 2), d.size(33), d.between(1, 17), d.between(1, 17))
    sizes = [max(1, int(size * d.pick(0.5, 1, 1.5, 2, 3, 4))) for size in shape[2:]]
    mode = d.pick("nearest", "linear")
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": d.pick("half_pixel", "asymmetric", "align_corners"),
    }
    if mode == "nearest":
        attributes["nearest_mode"] = d.pick("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    d.node("Resize", d.input(shape), "", "", d.indices(*shape[:2], *sizes), **attributes)


@family("grid_sample")
def grid_sample(d: Draft) -> None:
    """Draw a GridSample of a constant or computed grid, or a RoiAlign."""
    d.opset, d.quantizable = 20, False
    x = d.input((1, d.size(17), d.between(2, 12), d.between(2, 12)))
    if d.flag(0.2):
        boxes = d.constant([[0, 0, 8, 8], [2, 3, 10, 9], [1, 1, 4, 11]])
        batch = d.constant([0, 0, 0], np.int64)
        d.node("RoiAlign", x, boxes, batch, output_height=3, output_width=3, sampling_ratio=2)
        return
    grid = d.input((1, d.between(1, 7), d.between(1, 7), 2), -1.2, 1.2)
    modes = {"mode": d.pick("linear", "nearest"), "padding_mode": d.pick("zeros", "border", "reflection")}
    d.node("GridSample", x, grid, align_corners=d.pick(0, 1), **modes)
