"""Budgets: what counts as code, and which sums may rise."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from scripts import budget


class Repository:
    """A repository of git whose commits change the ceilings."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "scripts").mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch", "main")

    def git(self, *arguments: str) -> None:
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
        subprocess.run(
            ("git", "-C", str(self.folder), *identity, *arguments), check=True, capture_output=True
        )

    def write(self, **sums: int) -> str:
        figures = {kind: {"xdlc/a": sums.get(kind, 0)} for kind in budget.KINDS}
        (self.folder / budget.CEILINGS).write_text(budget.dumped(figures))
        return (self.folder / budget.CEILINGS).read_text()

    def commit(self, message: str = "area: change", **sums: int) -> str:
        text = self.write(**sums)
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", message)
        return text

    def raised(self, text: str) -> tuple[list[str], list[str]]:
        return budget.raised(text, budget.History(self.folder))


PAID = "quant: add a method\n\nWith a reason.\n\nPays-for: the method"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    created = Repository(tmp_path / "repository")
    created.commit(code=100, names=50)
    return created


def test_sums_may_sink(repository: Repository) -> None:
    assert repository.raised(repository.commit(code=90, names=40)) == ([], [])


def test_a_raise_needs_a_feature(repository: Repository) -> None:
    (error,), notices = repository.raised(repository.commit(code=101, names=50))
    assert "code rose from 100 to 101" in error
    assert "Pays-for" in error
    assert not notices
    (error,), _ = repository.raised(repository.commit("area: change\n\nPays-for:", code=102, names=50))
    assert "code rose from 100 to 102" in error
    assert repository.raised(repository.commit(PAID, code=110, names=50)) == ([], [])
    assert repository.raised(repository.commit(code=109, names=50)) == ([], [])


def test_a_later_commit_does_not_hide_a_raise(repository: Repository) -> None:
    repository.commit(code=120, names=50)
    (error,), _ = repository.raised(repository.commit(code=119, names=50))
    assert "100 to 119" in error
    assert repository.raised(repository.commit(code=100, names=50)) == ([], [])


def test_no_feature_pays_for_words(repository: Repository) -> None:
    (error,), _ = repository.raised(repository.commit(PAID, code=100, names=51))
    assert "names rose from 50 to 51" in error


def test_a_raise_that_is_not_committed_is_a_notice(repository: Repository) -> None:
    errors, (notice,) = repository.raised(repository.write(code=105, names=50))
    assert not errors
    assert "Pays-for: <feature>" in notice


def test_a_merge_brings_the_features_of_its_branch(repository: Repository) -> None:
    repository.git("checkout", "--quiet", "-b", "branch")
    repository.commit(PAID, code=110, names=50)
    repository.git("checkout", "--quiet", "main")
    (repository.folder / "page.md").write_text("text")
    repository.commit(code=100, names=50)
    repository.git("merge", "--quiet", "--no-ff", "branch", "--message", "merge")
    assert repository.raised((repository.folder / budget.CEILINGS).read_text()) == ([], [])


def test_a_clone_without_history_and_a_folder_without_git(repository: Repository, tmp_path: Path) -> None:
    text = repository.commit(code=300, names=300)
    clone = tmp_path / "clone"
    repository.git("clone", "--quiet", "--depth", "1", f"file://{repository.folder}", str(clone))
    assert budget.raised(text, budget.History(clone)) == ([], [])
    (tmp_path / "none").mkdir()
    assert budget.raised(text, budget.History(tmp_path / "none")) == ([], [])


def test_lines_of_code() -> None:
    imports = "import ast\nfrom a import (\n    b,\n)\n"
    text = f'"""Module.\n\nMore.\n"""\n\n{imports}\n# A comment.\nx = [\n    1,  # one\n]\n'
    assert budget.code_lines(text, ast.parse(text)) == 3


def test_figures_above_their_ceilings_and_lowered_ones() -> None:
    empty: dict[str, dict[str, int]] = {kind: {} for kind in budget.KINDS}
    ceilings = empty | {"code": {"xdlc/a": 10, "xdlc/b": 10}, "modules": {"xdlc/a": 1}}
    figures = empty | {"code": {"xdlc/a": 12, "xdlc/c": 3}, "modules": {"xdlc/a": 2}}
    assert budget.above(figures, ceilings) == [
        "code of xdlc/a: 12, above 10",
        "code of xdlc/c: 3, above 0",
        "modules of xdlc/a: 2, above 1",
    ]
    lowered = budget.lowered(ceilings, figures)
    assert (lowered["code"], lowered["modules"]) == (figures["code"], ceilings["modules"])


def test_lists_of_op_types() -> None:
    tree = ast.parse('A = ("Relu", "Sum")\nB = ["Relu", "Sum", "Mul"]\nC = {"Relu": 1, "Sum": 2, "Mul": 3}\n')
    assert budget.lists_of_op_types(tree, {"Relu", "Sum", "Mul"}) == [2, 3]
