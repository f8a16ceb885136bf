import pytest

from xdlc.errors import ProblemList, UsageError, each_problem
from xdlc.ir import Op
from xdlc.prepare.hta.partitioner import Range, ops_in, parse_ranges


def problems(text):
    with pytest.raises((UsageError, ProblemList)) as caught:
        parse_ranges(text)
    assert caught.value.exit_code == 2
    return "\n".join(map(str, each_problem(caught.value)))


def test_a_list_of_ranges():
    assert parse_ranges("0-11,177-215") == (Range(0, 11), Range(177, 215))
    assert parse_ranges(" 5 - 5 ") == (Range(5, 5),)
    assert parse_ranges("0-3,4-7") == (Range(0, 3), Range(4, 7))


@pytest.mark.parametrize("text", ["", "a-b", "1-2-3", "-3-5", "1-", "0-1,,2-3", "1.5-2", "0x1-2", "1–2"])  # noqa: RUF001
def test_what_is_no_range(text):
    assert "is not a range of layer ids like 0-11" in problems(text)


def test_a_single_layer_is_written_as_a_range():
    assert "fix: write 7-7" in problems("0-3,7")


def test_a_reversed_range():
    assert "the range 11-3 is reversed" in problems("11-3")


def test_ranges_that_overlap():
    assert "the ranges 0-5 and 4-9 overlap in layers 4-5" in problems("0-5,4-9")
    assert "overlap in layer 5" in problems("0-5,5-9")
    assert "overlap in layers 2-3" in problems("0-9,2-3")


def test_ranges_out_of_order():
    assert "the range 0-3 follows 5-7" in problems("5-7,0-3")


def test_all_problems_at_once():
    found = problems("0-5,x,9-7,4-6")
    for part in ("'x' is not a range", "9-7 is reversed", "0-5 and 4-6 overlap", "4-6 follows 7-9"):
        assert part in found


def test_ops_of_ranges():
    ops = [Op("Relu", [], [], name=str(number)) for number in range(4)]
    ids = dict(zip(ops, (1, 2, 2, 5), strict=True))
    assert ops_in(parse_ranges("0-2,5-5"), ids) == [tuple(ops[:3]), (ops[3],)]
    with pytest.raises(ProblemList) as caught:
        ops_in(parse_ranges("3-4,5-6"), ids)
    assert "the layers of range 3-4 have no operations" in str(caught.value)
    assert "the range 5-6 exceeds the last layer, 5" in str(caught.value)
