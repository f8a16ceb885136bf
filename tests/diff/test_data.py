"""Elements of static tensors."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import xdlc
from tests.support.custom_ops import scale_graph
from tests.support.rich_model import rich_model
from xdlc.diff import diff
from xdlc.diff.change import LONGEST, Change, shown_pair, text_pair
from xdlc.diff.data import data_changes, encoding_change, figures, real_values, same_bytes
from xdlc.errors import ContainerError
from xdlc.ir import (
    ArrayData,
    AxisScaleOffset,
    BlockScaleOffset,
    BlockwiseExpansion,
    Role,
    ScaleOffset,
    Tensor,
    raw_data,
    static,
)
from xdlc.ir.data import MappedData, MappedFile
from xdlc.ir.dtype import SFIXED4, SFIXED8, STRING, UFIXED8
from xdlc.ir.tensor import f32

LONG = np.arange(3_000_000, dtype=np.float32).reshape(3, 1000, 1000)


def test_long_data_are_compared_to_the_last_element() -> None:
    changed = LONG.copy()
    changed[-1, -1, -1] = 0
    assert same_bytes(ArrayData(LONG), ArrayData(LONG.copy()))
    assert not same_bytes(ArrayData(LONG), ArrayData(changed))
    result = figures(static("a", LONG), static("b", changed))
    assert (result.count, result.differing, result.largest) == (3_000_000, 1, 2_999_999)


def test_data_without_rows_are_compared() -> None:
    lazy = ArrayData(LONG.T.copy()).transpose((2, 1, 0))
    assert same_bytes(lazy, ArrayData(LONG))
    assert (
        figures(static("a", LONG), Tensor("b", LONG.shape, static("x", LONG).dtype, None, lazy)).differing
        == 0
    )


def test_ranges_of_a_file_are_equal_only_at_one_place(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(bytes(range(64)) * 2)
    first, second = MappedFile(path), MappedFile(path)
    assert same_bytes(MappedData(first, 0, (64,), np.uint8), MappedData(second, 0, (64,), np.uint8))
    assert same_bytes(MappedData(first, 0, (64,), np.uint8), MappedData(second, 64, (64,), np.uint8))
    assert not same_bytes(MappedData(first, 0, (63,), np.uint8), MappedData(second, 1, (63,), np.uint8))


def test_quantized_values_are_compared_as_floats() -> None:
    values = np.array([[1, 2], [3, 4]], np.int8)
    before = static("w", values, SFIXED8, AxisScaleOffset(0, [1.0, 10.0]))
    after = static("w", values + np.array([[0, 0], [0, 1]], np.int8), SFIXED8, before.encoding)
    result = figures(before, after)
    assert (result.differing, result.largest) == (1, 10.0)
    assert result.db == pytest.approx(10 * np.log10((1 + 4 + 900 + 1600) / 100))


def test_few_quantized_values_are_shown_as_floats() -> None:
    before = static("w", np.array([1, -3], np.int8), SFIXED8, ScaleOffset(0.1, 0))
    after = static("w", np.array([1, -2], np.int8), SFIXED8, before.encoding)
    (change,) = data_changes(before, after, "w")
    assert (change.before, change.after) == ("[0.1, -0.3]", "[0.1, -0.2]")
    numbers = change.as_dict()["figures"]
    assert (numbers["elements"], numbers["differing"]) == (2, 1)
    assert numbers["largest"] == pytest.approx(0.1)
    assert numbers["sqnr_db"] == pytest.approx(10)
    unfit = AxisScaleOffset(0, [0.1, 0.1, 0.1])
    assert real_values(static("w", np.array([1, -3], np.int8), SFIXED8, unfit)) == [1, -3]


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([[0.1234567890123], [0.2]], ["[0.123457]", "[0.2]"]),
        ([[0.1234567890123], [0.12345678]], ["[0.123456789]", "[0.12345678]"]),
        ([[0.1234567890123], [0.1234567890124]], ["[0.1234567890123]", "[0.1234567890124]"]),
        ([[[1, 0.5]], [[2, 0.5]]], ["[[1, 0.5]]", "[[2, 0.5]]"]),
        ([1, None], [1, None]),
        ([1, 1], [1, 1]),
    ],
)
def test_lists_have_as_few_digits_as_tell_them_apart(values: list, texts: list) -> None:
    assert shown_pair(values) == texts


def test_long_texts_have_the_words_that_differ() -> None:
    words = [f"flag{number}=no" for number in range(40)]
    changed = [*words[:7], "flag7=yes", *words[8:]]
    assert shown_pair([" ".join(words), " ".join(changed)]) == ["... flag7=no ...", "... flag7=yes ..."]
    longer = [*words[:7], "more=yes", *words[7:]]
    assert shown_pair([" ".join(words), " ".join(longer)]) == ["...", "... more=yes ..."]
    spaced = [" ".join(words), "  ".join(words)]
    assert shown_pair(spaced)[0].startswith("flag0=no flag1")


@pytest.mark.parametrize(
    "values",
    [
        [[*range(300)], [*range(150), -1, *range(151, 300)]],
        [[*range(3000)], [*range(1500), -1, *range(1501, 3000)]],
        ["a" * 9000 + "b" + "a" * 9000, "a" * 18001],
        [["n" * 500 + "1"], ["n" * 500 + "2"]],
        [f"{'x ' * 60}{'y' * 300}1{'z' * 300}", f"{'x ' * 60}{'y' * 300}2{'z' * 300}"],
    ],
)
def test_long_values_that_differ_in_the_middle_are_shown_there(values: list) -> None:
    before, after = shown_pair(values)
    assert before != after
    assert max(len(before), len(after)) <= LONGEST + 3
    result = diff(rich_model(), rich_model(), ignore=["cost"])
    changes = (
        Change.between("params", "parameter", (before, after)),
        Change.between("io", "inputs", map(str, values)),
    )
    for change in changes:
        (line,) = (line for line in replace(result, items=[change]).lines() if line.startswith("  "))
        first, second = line.partition(": ")[2].split(" -> ")
        assert first != second


def test_lines_have_as_few_digits_as_tell_values_apart() -> None:
    assert text_pair([0.1234567890123, 0.2]) == ["0.123457", "0.2"]
    assert text_pair([0.1234567, 0.12345678]) == ["0.1234567", "0.12345678"]
    assert text_pair([None, "x"]) == ["none", "x"]


def test_rows_of_long_data_have_their_own_scales() -> None:
    values = np.ones((3, 3_000_000), np.int8)
    changed = values.copy()
    changed[2, 0] = 2
    encoding = AxisScaleOffset(0, [1.0, 2.0, 4.0])
    result = figures(static("w", values, SFIXED8, encoding), static("w", changed, SFIXED8, encoding))
    assert (result.differing, result.largest) == (1, 4.0)


def test_floats_are_compared_with_quantized_values() -> None:
    before = static("w", np.array([0.5, 1.04], np.float32))
    after = static("w", np.array([5, 10], np.uint8), UFIXED8, ScaleOffset(0.1, 0))
    assert figures(before, after).largest == pytest.approx(0.04, rel=1e-3)


def test_values_of_4_bits_are_unpacked() -> None:
    tensors = [
        Tensor("w", (3,), SFIXED4, ScaleOffset(1.0), ArrayData(np.array([0x21, last], np.uint8)))
        for last in (3, 4)
    ]
    result = figures(*tensors)
    assert (result.count, result.differing, result.largest) == (3, 1, 1.0)


def test_an_encoding_that_does_not_fit_leaves_integers() -> None:
    before = static("w", np.array([1, 2], np.int8), SFIXED8, AxisScaleOffset(0, [1.0, 1.0, 1.0]))
    after = static("w", np.array([1, 4], np.int8), SFIXED8, before.encoding)
    result = figures(before, after)
    assert (result.differing, result.largest, result.db) == (1, 2.0, None)


def test_an_encoding_that_does_not_fit_late_rows_leaves_all_integers() -> None:
    values = np.ones((3, 3_000_000), np.int8)
    changed = values.copy()
    changed[0, 0] = 3
    encoding = AxisScaleOffset(0, [4.0, 2.0])
    result = figures(*(static("w", array, SFIXED8, encoding) for array in (values, changed)))
    assert (result.differing, result.largest, result.db) == (1, 2.0, None)


def test_integers_have_no_ratio() -> None:
    result = figures(static("a", np.array([1, 2])), static("a", np.array([1, 9])))
    assert (result.differing, result.largest, result.db) == (1, 7.0, None)


@pytest.mark.parametrize("content", [b"a\0", b"abc\0"])
def test_texts_are_compared_as_bytes(content: bytes) -> None:
    before, after = (
        Tensor("t", (2,), STRING, None, raw_data(data), Role.STATIC) for data in (b"b\0", content)
    )
    (change,) = data_changes(before, after, "t")
    assert (change.kind, change.before, change.after) == ("weights", None, None)


def test_values_of_four_bits_are_shown_one_by_one() -> None:
    before, after = (
        Tensor("t", (3,), SFIXED4, None, raw_data(data), Role.STATIC) for data in (b"\x21\x03", b"\x2f\x03")
    )
    (change,) = data_changes(before, after, "t")
    assert (change.before, change.after) == ("[1, 2, 3]", "[-1, 2, 3]")


def test_nan_equals_itself() -> None:
    array = np.array([np.nan, 1], np.float32)
    after = np.array([np.nan, 2], np.float32)
    assert figures(static("a", array), static("a", after)).differing == 1


@pytest.mark.parametrize("values", [[np.nan, 1], [np.inf, 1], [-np.inf, 1], [np.nan, 2]])
def test_a_value_that_is_not_finite_on_one_side_has_no_ratio(values: list[float]) -> None:
    tensors = [static("a", np.array(array, np.float32)) for array in (values, [0, 1])]
    for pair in (tensors, tensors[::-1]):
        result = figures(*pair)
        assert (result.largest, result.db) == (np.inf, None)
        assert result.as_dict()["largest"] is None
    both = figures(tensors[0], static("a", np.array([values[0], 3], np.float32)))
    assert (both.differing, both.largest) == (1, 3 - values[1])
    mixed = figures(tensors[0], static("a", np.array([0, 1], np.int32)))
    assert (mixed.largest, mixed.db) == (np.inf, None)


@pytest.mark.parametrize(
    ("before", "after", "largest"),
    [
        (np.array([1.0]), np.array([1.0 + 2**-40]), 2**-40),
        (np.array([2**60]), np.array([2**60 + 1]), 1),
        (np.array([-(2**63)]), np.array([2**63 - 1]), 2.0**64),
    ],
)
def test_numbers_of_64_bits_are_compared_as_they_are(before, after, largest: float) -> None:
    result = figures(static("a", before), static("b", after))
    assert (result.differing, result.largest) == (1, largest)


@pytest.mark.parametrize("block", [(1, 1_000_000), (3, 10), (1, 10), (2, 3_000_000)])
def test_long_data_with_scales_per_block_have_a_ratio(block: tuple[int, int]) -> None:
    values = np.ones((6, 3_000_000), np.int8)
    changed = values.copy()
    changed[4, -1] = 2
    count = values.size // (block[0] * block[1])
    encoding = BlockScaleOffset(block, np.arange(1, count + 1).tolist())
    place = (4 // block[0]) * (3_000_000 // block[1]) + 3_000_000 // block[1]
    result = figures(*(static("w", array, SFIXED8, encoding) for array in (values, changed)))
    assert (result.differing, result.largest) == (1, place)
    assert result.db is not None


@pytest.mark.parametrize(
    ("axis", "shape"), [(0, (8, 1_000_000)), (1, (1_000_000, 8)), (3, (3, 3, 100_000, 8))]
)
def test_long_data_with_expanded_scales_have_a_ratio(axis: int, shape: tuple[int, ...]) -> None:
    values = np.ones(shape, np.int8)
    changed = values.copy()
    changed.reshape(-1)[-1] = 2
    encoding = BlockwiseExpansion(axis, [0.5] * 8, [0] * 8, 2, 4, tuple(range(1, 17)))
    result = figures(*(static("w", array, SFIXED8, encoding) for array in (values, changed)))
    assert (result.differing, result.largest) == (1, 8.0)
    assert result.db is not None


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [([np.nan, 1.0], [np.nan, 2.0], 1), ([np.nan, 1.0], [2.0, 1.0], 1), ([0.0, 1.0], [-0.0, 1.0], 0)],
)
def test_scales_that_are_not_finite_have_no_share(
    before: list[float], after: list[float], count: int
) -> None:
    note = encoding_change(AxisScaleOffset(0, before), AxisScaleOffset(0, after), "encoding").note or "0 of 2"
    assert note.startswith(f"{count} of 2")
    assert "nan" not in note
    single = encoding_change(ScaleOffset(before[0]), ScaleOffset(after[0]), "encoding").note or ""
    assert "nan" not in single


def test_damage_is_an_error_also_where_both_files_are_one(tmp_path: Path) -> None:
    path, copied = tmp_path / "a.dlc", tmp_path / "b.dlc"
    model = rich_model()
    model.files = {}
    model.save(path)
    shutil.copy(path, copied)
    assert diff(xdlc.load(path), xdlc.load(copied)).is_equal
    content = bytearray(path.read_bytes())
    content[content.find(b"abcdefgh")] ^= 1
    path.write_bytes(content)
    for other in (path, copied):
        with pytest.raises(ContainerError) as error:
            diff(xdlc.load(path), xdlc.load(other))
        assert error.value.code == "XD602"


def test_negative_zero_of_a_parameter_equals_zero() -> None:
    models = [scale_graph(), scale_graph()]
    for model, value in zip(models, (0.0, -0.0), strict=True):
        model.main.ops[0].params["alpha"] = f32(value)
    assert diff(*models).is_equal
    models[1].main.ops[0].params["alpha"] = f32(1.0)
    assert not diff(*models).is_equal
