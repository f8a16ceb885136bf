"""``xdlc-diff``."""

import json
import shlex
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner, Result

import xdlc.api
from tests.support import graph_mutations, record_mutations, rich_model
from tests.support.onnx_models import residual
from xdlc.cli.main import main
from xdlc.diff import GROUPS, KINDS
from xdlc.ir import Tensor, make_op
from xdlc.ir.dtype import FLOAT32

HOSTILE = "a\x1b[2J\u202e\n<script>" + "x" * 10_000


def run(line: str) -> Result:
    return CliRunner().invoke(main, shlex.split(line))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("diff")
    before, after = rich_model.rich_model(), rich_model.rich_model()
    for change in (
        graph_mutations.scale,
        graph_mutations.weights_of_channels,
        record_mutations.layout,
        record_mutations.history,
    ):
        change(after)
    before.files, after.files = {}, {}
    before.save(folder / "a.dlc")
    after.save(folder / "b.dlc")
    return folder / "a.dlc", folder / "b.dlc"


def test_equal_files_print_one_line(files: tuple[Path, Path]) -> None:
    result = run(f"diff {files[0]} {files[0]}")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 1)
    assert run(f"diff --quiet {files[0]} {files[0]}").stdout == ""


def test_different_files_give_1(files: tuple[Path, Path]) -> None:
    result = run(f"diff {files[0]} {files[1]}")
    assert result.exit_code == 1
    assert "conv (Conv2d): changed" in result.stdout
    assert run(f"diff --quiet {files[0]} {files[1]}").stdout == ""


def test_every_error_gives_2(files: tuple[Path, Path], tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.dlc"
    damaged.write_bytes(files[0].read_bytes()[:1000])
    swapped = bytearray(files[0].read_bytes())
    place = swapped.find(b"abcdefgh")
    swapped[place] ^= 1
    (tmp_path / "swapped.dlc").write_bytes(swapped)
    a = files[0]
    for words in (
        f"{a} {damaged}",
        f"{a} {tmp_path / 'none.dlc'}",
        f"{a} {tmp_path / 'swapped.dlc'}",
        f"{a}",
        f"{a} {a} {a}",
        f"{a} {a} --bad",
        f"{a} {a} --ignore no-such-kind",
    ):
        result = run(f"diff {words}")
        assert result.exit_code == 2, (words, result.output)
        assert "error" in result.stderr


def test_json_has_each_difference(files: tuple[Path, Path]) -> None:
    result = run(f"diff {files[0]} {files[1]} --json --only encodings,weights")
    assert result.exit_code == 1
    content = json.loads(result.stdout)
    assert (content["schema"], content["equal"], content["problems"]) == (1, False, [])
    (op,) = content["ops"]
    assert (op["before"], op["state"]) == ("conv", "changed")
    assert sorted(change["kind"] for change in op["changes"]) == ["encodings", "weights"]


def test_json_of_an_error(files: tuple[Path, Path]) -> None:
    result = run(f"diff {files[0]} none.dlc --json")
    assert result.exit_code == 2
    assert json.loads(result.stdout)["problems"]


def test_ignored_kinds_and_groups(files: tuple[Path, Path]) -> None:
    line = f"diff {files[0]} {files[1]}"
    assert run(f"{line} --ignore encodings,weights --ignore layouts,metadata").exit_code == 0
    assert run(f"{line} --ignore encodings,weights,layouts").exit_code == 1
    assert run(f"{line} --only shapes").exit_code == 0
    assert "nearest: weights" in run(f"{line} --ignore wieghts").stderr


def test_the_help_lists_kinds_and_exit_codes() -> None:
    words = run("diff --help").stdout.replace("-\n  ", "-").split()
    assert {*KINDS, *GROUPS} <= {word.rstrip(",.") for word in words}
    assert "1 different, 2 error" in " ".join(words)


def test_csv_has_a_row_for_each_difference(files: tuple[Path, Path], tmp_path: Path) -> None:
    assert run(f"diff {files[0]} {files[1]} --csv {tmp_path / 'd.csv'}").exit_code == 1
    rows = (tmp_path / "d.csv").read_text().splitlines()
    assert rows[0].startswith("graph,op before,op after,kind")
    assert any(row.startswith("main,conv,conv,weights") for row in rows)


def test_the_page_marks_the_differences_that_count(files: tuple[Path, Path], tmp_path: Path) -> None:
    page = tmp_path / "d.html"
    assert run(f"diff {files[0]} {files[1]} --html {page} --only weights").exit_code == 1
    assert "<title" in page.read_text()
    content = xdlc.api.view_content(files[0], against=files[1], ignore=KINDS.keys() - {"weights"})
    changes = [change["kind"] for row in content["diff"]["ops"] for change in row[5]]
    assert changes == ["weights"]
    assert content["diff"]["items"] == []


def test_hostile_names_are_inert(tmp_path: Path) -> None:
    models = [rich_model.rich_model() for _ in range(2)]
    models[1].main.add_input(Tensor(HOSTILE, (2,), FLOAT32))
    models[1].main.rename_op(models[1].main.last, HOSTILE)
    after = models[1].main
    after.append(
        make_op(after, HOSTILE, [after.inputs[0]], [Tensor(f"{HOSTILE}2", (2,), FLOAT32)], package="P")
    )
    models[1].metadata["history"][0]["tool"] = HOSTILE
    for number, model in enumerate(models):
        model.files = {}
        model.save(tmp_path / f"{number}.dlc")
    result = run(f"diff {tmp_path / '0.dlc'} {tmp_path / '1.dlc'}")
    assert result.exit_code == 1
    assert all(character.isprintable() for line in result.stdout.split("\n") for character in line)
    assert max(map(len, result.stdout.splitlines())) < 500


def test_a_source_model_beside_its_dlc(tmp_path: Path) -> None:
    onnx.save(residual(), tmp_path / "net.onnx")
    xdlc.convert(tmp_path / "net.onnx").save(tmp_path / "net.dlc")
    result = run(f"diff {tmp_path / 'net.onnx'} {tmp_path / 'net.dlc'} --json")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    assert content["trace"]["nodes"] == []
    assert [op["type"] for op in content["trace"]["ops"]] == ["Transpose"]
    both = run(f"diff {tmp_path / 'net.onnx'} {tmp_path / 'net.onnx'}")
    assert both.exit_code == 2


@pytest.mark.parametrize(
    ("words", "kinds"),
    [("-w", {"weights"}), ("-p -w", {"weights"}), ("-x", set()), ("-i -w", {"weights"}), ("", None)],
)
def test_the_vendors_name_and_flags(words: str, kinds: set[str] | None, files: tuple[Path, Path]) -> None:
    for name in ("snpe-dlc-diff", "qairt-dlc-diff"):
        result = run(f"{name} -i1 {files[0]} -i2 {files[1]} {words} --json")
        assert result.exit_code == (0 if kinds == set() else 1)
        content = json.loads(result.stdout)
        changes = [change["kind"] for row in content["ops"] for change in row["changes"]]
        assert kinds is None or set(changes) == kinds
    saved = files[0].with_name("vendor.csv")
    assert run(f"snpe-dlc-diff -i1 {files[0]} -i2 {files[1]} -s {saved}").exit_code == 1
    assert saved.stat().st_size


def test_the_second_file_may_come_first(files: tuple[Path, Path]) -> None:
    words = (
        f"snpe-dlc-diff -i2 {files[1]} -i1 {files[0]}",
        f"qairt-dlc-diff --input_dlc_two {files[1]} --input_dlc_one {files[0]}",
        f"diff --after {files[1]} {files[0]}",
    )
    for line in words:
        assert json.loads(run(f"{line} --json").stdout)["files"] == ["a.dlc", "b.dlc"], line
    assert run(f"snpe-dlc-diff -i1 {files[0]}").exit_code == 2
    assert run(f"diff {files[0]} {files[1]} --after {files[1]}").exit_code == 2


@pytest.mark.parametrize("words", ["A --only weights B", "--only weights A B", "A B --only weights"])
def test_kinds_may_stand_between_the_files(words: str, files: tuple[Path, Path]) -> None:
    line = words.replace("A", str(files[0])).replace("B", str(files[1]))
    content = json.loads(run(f"diff {line} --json").stdout)
    assert content["files"] == ["a.dlc", "b.dlc"]
    assert set(KINDS) - set(content["ignored"]) == {"weights"}


def test_options_of_a_conversion_need_a_source_model(files: tuple[Path, Path]) -> None:
    answer = run(f"diff {files[0]} {files[1]} --batch 2")
    assert (answer.exit_code, "--batch" in answer.stderr) == (2, True)
