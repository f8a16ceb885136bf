"""docs/gallery.md and the home page have the figures of docs/gallery.json."""

from __future__ import annotations

import json

from scripts import gallery


def test_the_pages_have_the_stored_figures() -> None:
    rows = json.loads(gallery.FIGURES.read_text())
    assert gallery.PAGE.read_text() == gallery.page(rows), "renew it: python -m scripts.gallery --write"
    home = gallery.HOME.read_text()
    assert home == gallery.with_results(home, rows), "renew it: python -m scripts.gallery --write"


def test_every_figure_is_of_a_model_of_the_list() -> None:
    rows = json.loads(gallery.FIGURES.read_text())
    assert set(rows) <= set(gallery.MODELS)
    assert set(gallery.ON_HOME) <= set(gallery.MODELS)
    assert "| LeNet | Caffe |" in gallery.page(rows)
    assert "| LeNet |" not in gallery.page({"LeNet": {"error": "not done in 9 s"}})


def test_sqnr_is_of_the_worst_output() -> None:
    import numpy as np

    whole, part = np.ones(4), np.full(4, 0.9)
    assert gallery._db([[whole, whole]], [[whole, part]]) == 20.0
    assert gallery._db([[whole]], [[whole]]) is None
