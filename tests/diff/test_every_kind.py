"""One property is changed at a time: the diff names exactly this property."""

import pytest

from tests.support import graph_mutations, record_mutations
from tests.support.mutations import Mutation
from tests.support.rich_model import rich_model
from xdlc.diff import KINDS, Diff, diff
from xdlc.ir import Model

MUTATIONS = [*graph_mutations.MUTATIONS, *record_mutations.MUTATIONS]
DERIVED = {"cost"}
"""Kinds of differences that only follow from others."""


def rows(result: Diff) -> list[tuple[str, str, str | None]]:
    """Return kind, property and op of each difference."""
    content = result.as_dict()
    return (
        [
            (change["kind"], change["what"], row["before"])
            for row in content["ops"]
            for change in row["changes"]
        ]
        + [
            ("ops", row["state"], row["before"] or row["after"])
            for row in content["ops"]
            if row["state"].startswith("only")
        ]
        + [(change["kind"], change["what"], None) for change in (*content["graphs"], *content["items"])]
    )


def check(before: Model, after: Model, mutation: Mutation) -> None:
    differences = rows(diff(before, after))
    assert [(kind, op) for kind, _, op in differences] == [(mutation.kind, mutation.op)], differences
    assert mutation.place in differences[0][1]
    assert diff(before, after, ignore=[mutation.kind]).is_equal
    others = set(KINDS) - {mutation.kind}
    assert not diff(before, after, ignore=others).is_equal
    reverse = rows(diff(after, before))
    assert [kind for kind, *_ in reverse] == [mutation.kind], reverse


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_changed_property_is_the_only_difference(mutation: Mutation) -> None:
    after = rich_model()
    mutation.change(after)
    check(rich_model(), after, mutation)


def test_equal_models_have_no_difference() -> None:
    result = diff(rich_model(), rich_model())
    assert result.is_equal
    assert len(list(result.lines())) == 1
    assert set(result.counts.values()) == {0, result.counts["same"]}


def test_every_kind_has_a_change() -> None:
    assert len(MUTATIONS) >= 40
    assert {mutation.kind for mutation in MUTATIONS} | DERIVED == set(KINDS)


@pytest.mark.parametrize(
    "mutation", [each for each in MUTATIONS if each.is_stored], ids=lambda mutation: mutation.name
)
def test_a_changed_property_is_the_only_difference_of_two_files(mutation: Mutation, tmp_path) -> None:
    import xdlc

    models = []
    for number in range(2):
        model = rich_model()
        if number:
            mutation.change(model)
        model.save(tmp_path / f"{number}.dlc")
        models.append(xdlc.load(tmp_path / f"{number}.dlc"))
    check(*models, mutation)
