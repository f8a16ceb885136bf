"""Files of strangers end in errors that name the entry and what to do."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xdlc.errors import ProblemList, StorageError, UsageError, XdlcError, each_problem
from xdlc.json_fields import MAX_PROBLEMS
from xdlc.quant.overrides import read_overrides, reading

GOOD = {"bitwidth": 8, "scale": 0.1, "offset": 0}


def legacy(value, section="activation_encodings"):
    return {"activation_encodings": {}, "param_encodings": {}} | {section: {"x": value}}


def named(**changed):
    entry = {"name": "x", "enc_type": "PER_TENSOR", "dtype": "INT", "bw": 8, "is_sym": False}
    entry |= {"scale": [0.1], "offset": [0]} | changed
    return {"version": "1.0.0", "activation_encodings": [], "param_encodings": [entry]}


def flat(**changed):
    entry = {"name": "x", "output_dtype": "uint8", "y_scale": 0.1} | changed
    return {"version": "2.0.0", "encodings": [entry]}


LPBQ = {"enc_type": "LPBQ", "compressed_bw": 4, "block_size": 2, "offset": [-128]}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({}, "has no activation_encodings"),
        ({"activation_encodings": {}}, "has no param_encodings"),
        ({"activation_encodings": {}, "param_encodings": 3}, ": param_encodings: "),
        ({"activation_encodings": [], "param_encodings": {"x": [GOOD]}}, ": activation_encodings: "),
        ({"version": "3.0.0"}, "known: 0.4.0"),
        ({"version": ["1.0.0"] * 1000}, "known: 0.4.0"),
        ({"version": "2.0.0", "activation_encodings": {}, "param_encodings": {}}, "has no encodings"),
        ({"encodings": 5}, ": encodings: "),
        ({"encodings": [5]}, ": encodings[0]: "),
        (legacy({}), "a list of encodings"),
        (legacy([]), "a list of encodings"),
        (legacy([5]), "an object"),
        (legacy([{}]), "has no bitwidth"),
        (legacy([GOOD | {"bitwidth": 7}]), "known: 2, 4, 8, 16, 32"),
        (legacy([GOOD | {"bitwidth": True}]), "'x'.bitwidth: "),
        (legacy([GOOD | {"bitwidth": 8.5}]), "'x'.bitwidth: "),
        (legacy([GOOD | {"dtype": "complex"}]), "dtype"),
        (legacy([{"bitwidth": 8, "dtype": "float"}]), "known: 16, 32"),
        (legacy([GOOD | {"scale": "0.1"}]), "'x'.scale: "),
        (legacy([GOOD | {"scale": float("nan")}]), "'x'.scale: "),
        (legacy([GOOD | {"scale": 10**400}]), "'x'.scale: "),
        (legacy([GOOD | {"scale": -0.1}]), "positive"),
        (legacy([GOOD | {"is_symmetric": "maybe"}]), "'x'.is_symmetric: "),
        (legacy([GOOD | {"min": float("inf"), "max": 1}]), "'x'.min: "),
        (legacy([GOOD, GOOD]), "is an activation with several scales"),
        (legacy([GOOD, GOOD], "param_encodings"), "not symmetric"),
        (legacy([GOOD, GOOD | {"bitwidth": 4}], "param_encodings"), "differs from the first"),
        (named(name=""), "param_encodings[0].name: "),
        (named(name=7), "param_encodings[0].name: "),
        (named(enc_type="VECTOR"), "PER_TENSOR"),
        (named(dtype="BOOL"), "INT or FLOAT"),
        (named(bw=3), "known"),
        (named(scale=[]), "'x'.scale: "),
        (named(scale=[[0.1], 0.1]), "'x'.scale: "),
        (named(scale=[[[[[[[[[[0.1]]]]]]]]]]), "'x'.scale: "),
        (named(scale=[0.1, 0.2]), "PER_TENSOR with 2"),
        (named(scale=[0.1, 0.2], offset=[0, 0, 0], enc_type="PER_CHANNEL"), "differ in length"),
        (named(scale=[0.1, 0.2], offset=[0, -3], enc_type="PER_CHANNEL"), "not symmetric"),
        (named(offset=[0.5]), "whole number"),
        (named(enc_type="PER_BLOCK", block_size=0), "from 1 on"),
        (named(**LPBQ, per_block_int_scale=[1, 17]), "not from 1 to 16"),
        (named(**LPBQ, per_block_int_scale=[]), "'x'.per_block_int_scale: "),
        (named(**LPBQ | {"offset": [3]}, per_block_int_scale=[1]), "not symmetric"),
        (named(**LPBQ, scale=[1, 2], per_block_int_scale=[1, 2, 3]), "3 scales of blocks for 2"),
        (flat(output_dtype="float8e4m3fn"), "use one of"),
        (flat(output_dtype="uint7"), "use one of"),
        (flat(y_scale=None), "has no y_scale"),
        (flat(y_scale=[0.1, 0.2]), "no single axis"),
        (flat(y_scale=[[1, 2], [3, 4]], axis=0), "no single axis"),
        (flat(y_scale=[1, 2], axis=0), "not symmetric"),
        (flat(y_scale=[1, 2], y_zero_point=[1, 2, 3], axis=0), "3 zero points"),
        (flat(output_dtype="int2", y_zero_point=-0.5), "whole number"),
        (flat(y_scale=[[1, 2]], axis=5, block_size=2, output_dtype="int4"), "the block axis is 5"),
        (flat(y_scale=[[[1, 2]] * 2] * 2, axis=0, block_size=2, output_dtype="int4"), "more than two axes"),
        (flat(y_zero_point=300), "can represent zero"),
    ],
)
def test_what_is_no_file_of_encodings_is_refused(content, problem):
    with pytest.raises(XdlcError) as caught:
        read_overrides(content)
    first = each_problem(caught.value)[0]
    assert type(first) is UsageError
    assert problem in str(first)
    assert first.where
    assert first.fix


def test_errors_name_file_and_entry(tmp_path):
    path = tmp_path / "o.json"
    path.write_text(json.dumps(legacy([GOOD | {"scale": 0}])))
    with pytest.raises(UsageError) as caught:
        read_overrides(path)
    assert caught.value.where == f"{path}: activation_encodings 'x'"


def test_all_faulty_entries_come_at_once_up_to_a_limit():
    bad = {f"x{index}": [] for index in range(200)}
    with pytest.raises(ProblemList) as caught:
        read_overrides({"activation_encodings": bad, "param_encodings": {}})
    assert len(caught.value.problems) == MAX_PROBLEMS


def test_all_faults_of_an_entry_have_their_places():
    rows = [GOOD | {"scale": "a", "offset": 0.5}, GOOD | {"bitwidht": 8, "bitwidth": None}]
    content = {"activation_encodings": {}, "param_encodings": {"w": rows, "v": [GOOD | {"scale": -1.0}]}}
    with pytest.raises(ProblemList) as caught:
        read_overrides(content)
    places = [problem.where.partition(": param_encodings ")[2] for problem in caught.value.problems]
    assert places == ["'w'[0].scale", "'w'[0].offset", "'w'[1]", "'v'"]
    assert caught.value.problems[2].fix == "nearest: bitwidht"


def test_each_wrong_number_of_an_array_has_its_place():
    with pytest.raises(ProblemList) as caught:
        read_overrides(named(scale=[[0.1, "a"], [None, 0.1]], enc_type="PER_CHANNEL"))
    places = [problem.where.rpartition(".")[2] for problem in caught.value.problems]
    assert places == ["scale[0][1]", "scale[1][0]"]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe",
        b"[1, 2]",
        b"[" * 100000,
        b'{"a": NaN}',
        b'{"activation_encodings": {}, "activation_encodings": {}, "param_encodings": {}}',
        b'{"activation_encodings": {"x": [], "x": []}, "param_encodings": {}}',
        b'{"a": ' + b"1" * 5000 + b"}",
    ],
)
def test_what_is_no_json_is_refused(tmp_path, text):
    path = tmp_path / "o.json"
    path.write_bytes(text)
    with pytest.raises(UsageError) as caught:
        read_overrides(path)
    assert caught.value.fix


def test_large_files_are_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "LARGEST", 10)
    path = tmp_path / "o.json"
    path.write_bytes(b" " * 11)
    with pytest.raises(UsageError, match="has more than"):
        read_overrides(path)
    with pytest.raises(StorageError):
        read_overrides(tmp_path / "none.json")
    with pytest.raises(StorageError):
        read_overrides(tmp_path)


def test_what_is_no_source_is_refused():
    with pytest.raises(UsageError, match="type list"):
        read_overrides([])


def test_a_name_has_one_encoding():
    entry = flat()["encodings"][0]
    assert len(read_overrides({"encodings": [entry, dict(entry)]}).entries) == 1
    with pytest.raises(XdlcError, match="second, different encoding"):
        read_overrides({"encodings": [entry, entry | {"y_scale": 0.2}]})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FILES = [
    legacy([GOOD | {"min": 0, "max": 25.5, "dtype": "int", "is_symmetric": "False"}]),
    named(),
    named(**LPBQ, per_block_int_scale=[1]),
    flat(y_zero_point=0, axis=0, block_size=1),
]


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(FILES), st.data())
def test_any_value_anywhere_is_read_or_refused(content, data):
    content = json.loads(json.dumps(content))
    place, depth = content, data.draw(st.integers(1, 4))
    for _ in range(depth - 1):
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        inner = [key for key in keys if isinstance(place[key], dict | list) and place[key]]
        if not inner:
            break
        place = place[data.draw(st.sampled_from(inner))]
    keys = list(place) if isinstance(place, dict) else list(range(len(place)))
    place[data.draw(st.sampled_from(keys))] = data.draw(JSON)
    try:
        entries = read_overrides(content).entries
    except XdlcError as error:
        entries, problems = {}, each_problem(error)
    else:
        problems = ()
    assert all(problem.where and problem.fix for problem in problems)
    for entry in entries.values():
        steps = (1 << entry.bits) - 1
        assert all(2.0**-126 <= scale <= 2.0**127 for scale in entry.scales)
        assert all(-steps <= offset <= 0 for offset in entry.offsets)
