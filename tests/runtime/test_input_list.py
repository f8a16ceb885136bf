import os
from pathlib import Path

import numpy as np
import pytest

from xdlc.errors import ProblemList, StorageError, UsageError, each_problem
from xdlc.ir import Graph, ScaleOffset, Tensor
from xdlc.ir.dtype import BOOL8, FLOAT32, INT32, INT64, UFIXED8, UINT8, DType
from xdlc.runtime import input_list
from xdlc.runtime.input_list import read_input_list


def graph(*inputs: Tensor) -> Graph:
    made = Graph("g")
    for tensor in inputs:
        made.add_input(tensor)
    return made


def write(path: Path, array: object, kind: str = "<f4") -> Path:
    np.asarray(array, kind).tofile(path)
    return path


def listing(folder: Path, *lines: object) -> Path:
    path = folder / "list.txt"
    path.write_text("\n".join(map(str, lines)) + "\n")
    return path


def test_one_input(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.raw", [1, 2, 3]), write(tmp_path / "b.raw", [4, 5, 6])
    found = read_input_list(listing(tmp_path, a, "", b), graph(Tensor("x", (1, 3), FLOAT32)))
    assert [sample["x"].tolist() for sample in found.samples()] == [[[1, 2, 3]], [[4, 5, 6]]]
    assert next(found.samples())["x"].dtype == np.float32


def test_several_inputs_in_any_order(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.raw", [1, 2]), write(tmp_path / "b.raw", [3])
    inputs = graph(Tensor("x/0", (2,), FLOAT32), Tensor("y:0", (1,), FLOAT32))
    (sample,) = read_input_list(listing(tmp_path, f"y:0:={b}  x/0:={a}"), inputs).samples()
    assert sample["x/0"].tolist() == [1, 2]
    assert sample["y:0"].tolist() == [3]


def test_output_lines(tmp_path: Path) -> None:
    a = write(tmp_path / "a.raw", [1])
    path = listing(tmp_path, "#conv1 conv2", "% t1 t2", a)
    found = read_input_list(path, graph(Tensor("x", (1,), FLOAT32)))
    assert (found.ops, found.tensors) == (("conv1", "conv2"), ("t1", "t2"))


def test_quoted_path_with_a_blank(tmp_path: Path) -> None:
    a = write(tmp_path / "a b.raw", [7])
    (sample,) = read_input_list(listing(tmp_path, f'"{a}"'), graph(Tensor("x", (1,), FLOAT32))).samples()
    assert sample["x"].tolist() == [7]


def test_a_line_that_is_a_file_as_a_whole_and_a_mark_of_byte_order(tmp_path: Path) -> None:
    path = write(tmp_path / "a b.raw", [1, 2])
    (tmp_path / "list.txt").write_bytes(b"\xef\xbb\xbf" + str(path).encode() + b"\r\n")
    inputs = graph(Tensor("x", (2,), FLOAT32))
    (sample,) = read_input_list(tmp_path / "list.txt", inputs).samples()
    assert sample["x"].tolist() == [1, 2]


def test_raw_files_are_float32_whatever_the_type(tmp_path: Path) -> None:
    a = write(tmp_path / "a.raw", [1, 2])
    (sample,) = read_input_list(listing(tmp_path, a), graph(Tensor("x", (2,), INT64))).samples()
    assert sample["x"].dtype == np.int64
    assert sample["x"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("dtype", "shape", "axes", "expected"),
    [
        (INT64, (2, 3), (), [[1, 0, -1], [30522, 7, 2]]),
        (INT64, (1, 3), (0,), [[1, 0, 102]] * 2),  # as floats, 4 rows
        (INT64, (1, 3), (0,), [[0, 0, 0]] * 2),
        (INT32, (2, 3), (), [[1, 0, -1], [30522, 7, 2]]),
        (UINT8, (1, 4), (), [[0, 255, 3, 4]]),
        (BOOL8, (1, 2), (), [[True, False]]),
    ],
)
def test_files_of_integers_hold_them_as_they_are(
    tmp_path: Path, dtype: DType, shape: tuple[int, ...], axes: tuple[int, ...], expected: list[list[int]]
) -> None:
    inputs = graph(Tensor("x", shape, dtype, dynamic_axes=axes))
    forms = ["<f4"] if any(map(any, expected)) else []  # zeros are those of the input's own type
    for kind in (dtype.numpy, *forms):
        path = write(tmp_path / "a.raw", expected, kind)
        (sample,) = read_input_list(listing(tmp_path, path), inputs).samples()
        assert sample["x"].dtype == dtype.numpy
        assert sample["x"].tolist() == expected


def test_a_batch_of_integers_or_an_item_of_it(tmp_path: Path) -> None:
    inputs = graph(Tensor("x", (2, 3), INT64))  # 24 bytes are an item of it, or a batch of floats
    item = write(tmp_path / "a.raw", [5, 6, 7], "<i8")
    batch = write(tmp_path / "b.raw", [5, 6, 7, 8, 9, 1])
    (one,) = read_input_list(listing(tmp_path, item), inputs).samples()
    (two,) = read_input_list(listing(tmp_path, batch), inputs).samples()
    assert [one["x"].tolist(), two["x"].tolist()] == [[[5, 6, 7], [0, 0, 0]], [[5, 6, 7], [8, 9, 1]]]


def test_a_size_of_integers_that_does_not_fit(tmp_path: Path) -> None:
    path = write(tmp_path / "a.raw", [1, 2, 3], "<i8")
    with pytest.raises(UsageError, match=r"24 bytes, but input 'x' needs 16 \(1x2 of int64\)"):
        read_input_list(listing(tmp_path, path), graph(Tensor("x", (1, 2), INT64)))


@pytest.mark.parametrize(("dtype", "kind"), [(INT64, "<i8"), (UFIXED8, "u1")])
def test_native_files_hold_the_stored_type(tmp_path: Path, dtype: object, kind: str) -> None:
    a = write(tmp_path / "a.raw", [1, 200], kind)
    inputs = graph(Tensor("x", (2,), dtype, ScaleOffset(0.5, -3)))
    (sample,) = read_input_list(listing(tmp_path, a), inputs, native=True).samples()
    assert sample["x"].dtype == np.dtype(kind)
    assert sample["x"].tolist() == [1, 200]


def test_float_files_of_a_quantized_input_stay_real(tmp_path: Path) -> None:
    a = write(tmp_path / "a.raw", [0.25, -1.5])
    (sample,) = read_input_list(
        listing(tmp_path, a), graph(Tensor("x", (2,), UFIXED8, ScaleOffset(0.1)))
    ).samples()
    assert sample["x"].tolist() == [0.25, -1.5]


def test_npy_is_converted(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[1.0, 2.0]]))
    (sample,) = read_input_list(
        listing(tmp_path, tmp_path / "a.npy"), graph(Tensor("x", (1, 2, 1), FLOAT32))
    ).samples()
    assert sample["x"].shape == (1, 2, 1)
    assert sample["x"].dtype == np.float32


@pytest.mark.parametrize(
    ("shape", "axes", "values", "expected"),
    [
        ((1, 3), (0,), 12, (4, 3)),
        ((1, 3), (0,), 3, (1, 3)),
        ((2, 1, 3), (1,), 30, (2, 5, 3)),
        ((8, 3), (0,), 6, (2, 3)),
        ((1, 1, 3), (0, 1), 3, (1, 1, 3)),
    ],
)
def test_an_open_extent_follows_from_the_size(
    tmp_path: Path, shape: tuple[int, ...], axes: tuple[int, ...], values: int, expected: tuple[int, ...]
) -> None:
    inputs = graph(Tensor("x", shape, FLOAT32, dynamic_axes=axes))
    files = [write(tmp_path / f"{name}.raw", range(values)) for name in "ab"]
    found = read_input_list(listing(tmp_path, *files), inputs)
    assert [inference.results for inference in found.inferences] == [1, 1]
    assert [sample["x"].shape for sample in found.samples()] == [expected] * 2


def test_each_line_and_input_has_open_extents_of_its_own(tmp_path: Path) -> None:
    inputs = graph(
        Tensor("x", (1, 2), INT64, dynamic_axes=(0,)), Tensor("y", (1, 1), FLOAT32, dynamic_axes=(0, 1))
    )
    lines = []
    for count in (1, 3):
        x = write(tmp_path / f"{count}.raw", range(2 * count), "<i8")
        np.save(tmp_path / f"{count}.npy", np.zeros((count, 5)))
        lines.append(f"x:={x} y:={tmp_path / f'{count}.npy'}")
    found = read_input_list(listing(tmp_path, *lines), inputs, native=True)
    shapes = [(sample["x"].shape, sample["y"].shape) for sample in found.samples()]
    assert shapes == [((1, 2), (1, 5)), ((3, 2), (3, 5))]


def test_files_that_do_not_tell_open_extents(tmp_path: Path) -> None:
    one, two = (Tensor("x", (1, 1, 3), FLOAT32, dynamic_axes=axes) for axes in ((0,), (0, 1)))
    odd, none, many = (write(tmp_path / f"{n}.raw", range(n)) for n in (7, 0, 12))
    np.save(tmp_path / "a.npy", np.zeros((4, 1, 2)))
    with pytest.raises(ProblemList) as caught:
        read_input_list(listing(tmp_path, odd, none, tmp_path / "a.npy"), graph(one))
    text = str(caught.value)
    for size in (28, 0):
        assert (
            f"has {size} bytes, but input 'x' needs 12 or a multiple of this number (?x1x3 of float32)"
            in text
        )
    assert "a.npy has shape [4, 1, 2] (float64), but input 'x' needs ?x1x3" in text
    with pytest.raises(UsageError, match=r"'x' has 2 dynamic dimensions \(\?x\?x3 of float32\)") as several:
        read_input_list(listing(tmp_path, many), graph(two))
    assert "save the array as .npy" in str(several.value.fix)


def test_lines_fill_a_batch_and_zeros_the_rest(tmp_path: Path) -> None:
    files = [write(tmp_path / f"{n}.raw", [n, n]) for n in range(1, 6)]
    found = read_input_list(listing(tmp_path, *files), graph(Tensor("x", (3, 2), FLOAT32)))
    assert [inference.results for inference in found.inferences] == [3, 2]
    assert [sample["x"][:, 0].tolist() for sample in found.samples()] == [[1, 2, 3], [4, 5, 0]]


def test_whole_batches(tmp_path: Path) -> None:
    a = write(tmp_path / "a.raw", range(6))
    found = read_input_list(listing(tmp_path, a), graph(Tensor("x", (3, 2), FLOAT32)))
    assert [inference.results for inference in found.inferences] == [1]
    assert next(found.samples())["x"].shape == (3, 2)


def test_mixed_batches_are_refused(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a.raw", range(6)), write(tmp_path / "b.raw", range(2))
    with pytest.raises(UsageError, match="one item of a batch of 3"):
        read_input_list(listing(tmp_path, a, b), graph(Tensor("x", (3, 2), FLOAT32)))


def test_all_wrong_files_are_listed_with_their_lines(tmp_path: Path) -> None:
    good, short = write(tmp_path / "good.raw", [1, 2]), write(tmp_path / "short.raw", [1])
    path = listing(tmp_path, good, short, "# op", tmp_path / "missing.raw", tmp_path, f"z:={good}")
    with pytest.raises(ProblemList) as caught:
        read_input_list(path, graph(Tensor("x", (1, 2), FLOAT32)))
    text = str(caught.value)
    assert f"{path}:2: {short} has 4 bytes, but input 'x' needs 8 (1x2 of float32)" in text
    assert f"{path}:4: {tmp_path / 'missing.raw'}: the file cannot be read: No such file or directory" in text
    assert f"{path}:5: {tmp_path}: the file cannot be read: Is a directory" in text
    assert f"{path}:6: the model has no input 'z'" in text


def test_wrong_npy(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3))
    (tmp_path / "b.npy").write_bytes(b"no array")
    path = listing(tmp_path, tmp_path / "a.npy", tmp_path / "b.npy")
    with pytest.raises(ProblemList) as caught:
        read_input_list(path, graph(Tensor("x", (2,), FLOAT32)))
    assert "has shape [3] (float64)" in str(caught.value)
    assert "b.npy: cannot be read" in str(caught.value)


def test_inputs_must_be_named_and_complete(tmp_path: Path) -> None:
    a = write(tmp_path / "a.raw", [1])
    two = graph(Tensor("x", (1,), FLOAT32), Tensor("y", (1,), FLOAT32))
    with pytest.raises(UsageError, match="names no input"):
        read_input_list(listing(tmp_path, a), two)
    with pytest.raises(UsageError, match="no file for input y"):
        read_input_list(listing(tmp_path, f"x:={a}"), two)
    with pytest.raises(UsageError, match="'x' twice"):
        read_input_list(listing(tmp_path, f"x:={a} x:={a} y:={a}"), two)


def test_lines_without_a_usable_path(tmp_path: Path) -> None:
    inputs = graph(Tensor("x", (1,), FLOAT32))
    with pytest.raises(UsageError, match="no path for input 'x'"):
        read_input_list(listing(tmp_path, "x:="), inputs)
    with pytest.raises(UsageError, match=r"list\.txt:1: the line has a NUL character"):
        read_input_list(listing(tmp_path, "a\0b.raw"), inputs)


def test_missing_and_empty_list(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be read"):
        read_input_list(tmp_path / "none.txt", graph(Tensor("x", (1,), FLOAT32)))
    with pytest.raises(UsageError, match="the input list is empty"):
        read_input_list(listing(tmp_path, "# conv1"), graph(Tensor("x", (1,), FLOAT32)))


def test_a_path_that_is_too_long_is_named_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as caught:
        read_input_list(listing(tmp_path, "a" * 300), graph(Tensor("x", (1,), FLOAT32)))
    assert str(caught.value.where).endswith("list.txt:1")
    assert caught.value.code == "XD801"
    with pytest.raises(StorageError):
        read_input_list(tmp_path / ("a" * 300), graph(Tensor("x", (1,), FLOAT32)))


def test_file_that_shrinks_after_the_check(tmp_path: Path) -> None:
    a = write(tmp_path / "a.raw", [1, 2])
    found = read_input_list(listing(tmp_path, a), graph(Tensor("x", (2,), FLOAT32)))
    write(a, [1])
    with pytest.raises(StorageError, match=r"a\.raw"):
        next(found.samples())


@pytest.mark.parametrize(
    "content", ["x " * 1000, "x\n" * (input_list.MOST_LINES + 1), "'a'\n" * (input_list.MOST_QUOTED // 3 + 1)]
)
def test_lists_are_bounded(tmp_path: Path, content: str) -> None:
    (tmp_path / "list.txt").write_text(content)
    with pytest.raises(UsageError):
        read_input_list(tmp_path / "list.txt", graph(Tensor("x", (1,), FLOAT32)))


def test_a_list_and_what_it_names_are_plain_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe.npy")
    inputs = graph(Tensor("x", (1,), FLOAT32))
    for name in ("pipe", "pipe.npy"):
        with pytest.raises(StorageError):
            read_input_list(listing(tmp_path, tmp_path / name), inputs)
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(StorageError):
            read_input_list(path, inputs)
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UsageError):
        read_input_list(tmp_path / "large", inputs)


def test_pictures_are_refused_with_what_to_write(tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    folder.mkdir()
    picture = folder / "7.JPG"
    picture.write_bytes(b"\xff\xd8")
    x = graph(Tensor("x", (2,), FLOAT32))
    for path in (folder, picture, listing(tmp_path, picture)):
        with pytest.raises((UsageError, ProblemList)) as caught:
            read_input_list(path, x)
        (problem,) = each_problem(caught.value)
        assert (problem.code, '"7.npy"' in str(problem.fix)) == ("XD206", True)
