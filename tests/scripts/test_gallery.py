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
    assert "LeNet" in gallery.page(rows)
    assert "LeNet" not in gallery.page({"LeNet": {"error": "not done in 9 s"}})


def test_a_row_with_a_report_leads_to_its_picture() -> None:
    rows = json.loads(gallery.FIGURES.read_text())
    pictures = {path.stem for path in gallery.PICTURES.iterdir()}
    assert pictures == {gallery.slug(title) for title, facts in rows.items() if "verdict" in facts}
    assert sum(path.stat().st_size for path in gallery.PICTURES.iterdir()) < 1_500_000


def test_sqnr_is_of_the_worst_output() -> None:
    import numpy as np

    whole, part = np.ones(4), np.full(4, 0.9)
    assert gallery._db([[whole, whole]], [[whole, part]]) == 20.0
    assert gallery._db([[whole]], [[whole]]) is None
