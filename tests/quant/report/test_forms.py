import csv
import io
import json
from dataclasses import fields, replace
from functools import partial
from threading import Lock

import pytest

from xdlc.cli.quant_flow import in_command
from xdlc.errors import StorageError, UsageError
from xdlc.quant import quantize
from xdlc.quant.report import QuantReport, Reporter, TensorReport, summary, write
from xdlc.quant.report.reporter import COLUMNS


def test_json_holds_every_field(report, tmp_path):
    path = tmp_path / "r.json"
    write(report, path)
    content = json.loads(path.read_text("ascii"))
    names = [field.name for field in fields(QuantReport) if field.name != "phrase"]
    assert list(content) == [*names, "verdict"]
    assert content["schema"] == 1
    assert content["tensors"][0]["name"] == report.tensors[0].name
    assert content["tensors"][0]["cumulative"] == 12.346
    assert content["tensors"][1]["channels"] == {
        "axis": 3,
        "count": 2,
        "lows": [-1.4, -0.5],
        "highs": [1.2, 0.6],
    }
    assert content["ops"][0]["sensitivity"] == 8.5


def test_json_needs_no_copy_of_the_phrase(report):
    phrase = partial(lambda _, line: line, Lock())  # a lock cannot be copied
    assert replace(report, phrase=phrase).as_json() == report.as_json()


def _rows(path):
    return list(csv.DictReader(io.StringIO(path.read_text("utf-8"), newline="")))


def test_csv_has_a_row_for_each_tensor(report, tmp_path):
    path = tmp_path / "r.csv"
    write(report, path)
    rows = _rows(path)
    assert [row["name"] for row in rows][1:] == ["w", "y"]
    assert tuple(rows[0]) == COLUMNS
    assert set(COLUMNS) == {field.name for field in fields(TensorReport)} - {"histogram", "channels"}
    assert rows[0]["shape"] == "1 8 8 4"
    assert rows[2]["isolated"] == ""


def test_csv_cells_are_no_formulas(report, tmp_path):
    path = tmp_path / "r.csv"
    write(report, path)
    for row in _rows(path):
        for name in ("name", "op", "source", "shared"):
            assert not row[name].startswith(("=", "+", "-", "@"))


@pytest.mark.parametrize("name", ["r.txt", "r", "html"])
def test_other_suffixes_are_refused(report, tmp_path, name):
    with pytest.raises(UsageError, match="suffix") as raised:
        write(report, tmp_path / name)
    assert ".json" in raised.value.fix
    assert not list(tmp_path.iterdir())


def test_the_suffix_is_looked_at_before_the_work_begins(tmp_path):
    with pytest.raises(UsageError, match="suffix"):
        Reporter(tmp_path / "r.pdf")
    with pytest.raises(StorageError, match="the folder does not exist"):
        Reporter(tmp_path / "none" / "r.html")
    with pytest.raises(UsageError, match="most=0"):
        Reporter(most=0)


def test_a_report_that_cannot_be_written_leaves_the_old_one(report, tmp_path):
    with pytest.raises(StorageError):
        write(report, tmp_path / "none" / "r.json")


def test_quantize_writes_the_report(net, tmp_path):
    n = net(1, 4, 4, 3)
    path = tmp_path / "r.json"
    quantize(n.done(n.conv(n.x, 2, "y")), n.samples(5), report=path)
    found = json.loads(path.read_text())
    assert {tensor["name"] for tensor in found["tensors"]} == {"x", "y", "y_w", "y_b"}
    assert found["samples"] == 1


def test_the_summary_says_what_is_worst_and_what_helps(report):
    lines = summary(report)
    assert len(lines) <= 10
    assert lines[0] == f"verdict: {report.verdict}; outputs at 11.0 dB, on {report.samples} held-out samples"
    assert any(line.startswith("costs most") and "8.5 dB" in line for line in lines)
    assert any(line.startswith("largest own error") and "2.00% clipped" in line for line in lines)
    assert any(line.startswith("advice: activations cost most") for line in lines)
    assert any("clip more" in line for line in lines)
    weights = summary(replace(report, weights_only=11.2, activations_only=30.0))
    assert any(line.startswith("advice: weights cost most") for line in weights)
    calm = tuple(replace(tensor, clipped=None) for tensor in report.tensors)
    good = replace(report, sqnr=31.0, outputs=(replace(report.outputs[0], sqnr=31.0),), tensors=calm)
    assert any("nothing needs to be done" in line for line in summary(good))
    for bad in (
        replace(good, lost=("output 'y', 4:6 of axis 1 is at 1.0 dB",)),
        replace(good, tensors=(replace(report.tensors[0], isolated=0.0, used=0.001),)),
    ):
        assert not any("nothing needs to be done" in line for line in summary(bad))


def advice_of(report):
    return [line.removeprefix("advice: ") for line in summary(report) if line.startswith("advice: ")]


def test_advice_sets_what_is_not_set_already_and_ends_in_a_command_line(report):
    options, command = {"act_bitwidth": "8", "weights_bitwidth": "8"}, ("xdlc-quant", "-i", "m.dlc")
    few = replace(report.ops[0], name="an op", sensitivity=11.0)
    poor = replace(report, options=options, phrase=partial(in_command, command), ops=(few,))
    assert advice_of(poor)[1].endswith(": xdlc-quant -i m.dlc --act-bitwidth-of 'an op' 16")
    longer = [*command, "--act-bitwidth-of", "an op", "8", "--act-bitwidth-of=c", "8"]
    given = replace(poor, phrase=partial(in_command, longer))
    assert advice_of(given)[1].endswith(" -i m.dlc --act-bitwidth-of=c 8 --act-bitwidth-of 'an op' 16")
    many = replace(poor, ops=())
    assert advice_of(many)[0].endswith("--accuracy best")
    for chosen in ({"accuracy": "best"}, {"min_sqnr": "20.0"}, {"max_sqnr_drop": "3.0"}):
        assert advice_of(replace(many, options={**options, **chosen}))[0].endswith("--act-bitwidth 16")
    wide = replace(poor, options={**options, "act_bitwidth": "16", "float_ops": "other"})
    wide = replace(wide, ops=(replace(few, act_bits=16),))
    assert advice_of(wide)[1].endswith("--float-ops 'other,an op'")
    weights = replace(many, weights_only=11.2, activations_only=30.0)
    assert advice_of(weights)[0].endswith("--accuracy best")
    tried = {**options, "accuracy": "best"}
    assert advice_of(replace(weights, options=tried))[0].endswith("--algorithms seqmse")
    tried = {**tried, "algorithms": "seqmse,adaround,cle"}
    assert advice_of(replace(weights, options=tried))[0].endswith("--act-bitwidth 16 --weights-bitwidth 16")
    assert advice_of(replace(weights, phrase=str, options={"weights_bitwidth": "4"}))[0].endswith(
        "weights_bitwidth=8"
    )


def test_each_line_is_phrased_once(report):
    lines = advice_of(replace(report, lost=("[poor]",), phrase=lambda line: f"[{line}]"))
    assert lines[0] == "[poor]"
    assert all(line.count("[") == 1 for line in lines)


def test_clipping_on_purpose_and_poor_softmax_results_are_no_reason_for_advice(report):
    tensors = tuple(replace(tensor, source="percentile 99.99 of 4 samples") for tensor in report.tensors)
    assert not any("clip more" in line for line in advice_of(replace(report, tensors=tensors)))
    classes = replace(report.outputs[0], sqnr=5.8, judged=25.4, top1=1.0, rows=24)
    (line,) = advice_of(replace(report, tensors=tensors, outputs=(classes,)))
    assert "nothing needs to be done" in line


VERDICTS = [  # dB, top-1, rows, whether an application loses what it reads
    (31.0, 1.0, 24, False, "good"),
    (31.0, 0.958, 24, False, "good"),
    (31.0, 0.917, 24, False, "fair"),
    (31.0, 0.667, 24, False, "poor"),
    (31.0, 1.0, 24, True, "poor"),
    (15.0, 1.0, 24, False, "fair"),
    (9.0, 1.0, 24, False, "poor"),
    (31.0, 1.0, 3, False, "too few samples to judge (3)"),
    (9.0, 1.0, 3, False, "poor"),
    (31.0, None, 0, False, "good"),
]


@pytest.mark.parametrize(("db", "top1", "rows", "is_lost", "verdict"), VERDICTS)
def test_the_verdict_is_the_worse_of_db_and_agreement(report, db, top1, rows, is_lost, verdict):
    output = replace(report.outputs[0], sqnr=db, judged=db, top1=top1, rows=rows, is_lost=is_lost)
    rated = replace(report, outputs=(output,))
    assert rated.verdict == rated.as_json()["verdict"] == verdict
    assert summary(rated)[0].startswith(f"verdict: {verdict};")
    if verdict != "good":
        assert not any("nothing needs to be done" in line for line in summary(rated))


def test_the_verdict_line_shows_the_figure_that_decides(report):
    task = "top-1 equal in 99.9%, 93.2% without the most frequent"
    output = replace(report.outputs[0], sqnr=38.6, top1=0.99962, rows=26520, is_lost=True)
    output = replace(output, kept=0.932, task=task)
    line = summary(replace(report, outputs=(output,)))[0]
    assert line.startswith("verdict: poor; 'y' keeps 93.2%")
    assert task in line
    assert "100.0%" not in line
    useless = replace(report, outputs=(replace(output, is_useless=True),))
    assert useless.verdict == "useless"


def test_samples_that_tell_nothing_have_no_verdict(report):
    output = replace(report.outputs[0], sqnr=38.6)
    lines = summary(replace(report, outputs=(output,), doubt="input 'x' holds noise"))
    assert lines[0].startswith("verdict: not judged (calibration samples: input 'x' holds noise);")
    assert "advice: the calibration samples are wrong: input 'x' holds noise" in lines
    assert "held-out" not in summary(replace(report, held_out=False))[1]


def test_advice_names_the_few_ops_that_make_most_of_the_noise(report):
    few = replace(report.ops[0], name="guilty", sensitivity=13.0)
    lines = summary(replace(report, sqnr=12.0, ops=(few,)))
    assert any(line.endswith("79% of the noise comes from guilty: improve these first") for line in lines)
    many = [replace(few, name=f"op{index}", sensitivity=22.0) for index in range(10)]
    assert not any(
        "improve these first" in line for line in summary(replace(report, sqnr=12.0, ops=tuple(many)))
    )


def test_the_summary_holds_nothing_that_a_terminal_obeys(report):
    odd = replace(report.ops[0], name="a\x1b[31m\u202eb\n", type="x\x07")
    assert all(line.isprintable() for line in summary(replace(report, ops=(odd,))))
