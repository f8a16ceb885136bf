"""Explanations of error numbers, names, lines and logs of the vendor's libraries."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import xdlc
from xdlc.cli.tools import explain as tool
from xdlc.errors import StorageError, UsageError
from xdlc.runtime import vendor_errors

LINES = [
    'sequencer.cc:149:ERROR:A single op, "q::Crouton" (Op ID: 11), requires 0x2400000 bytes of TCM',
    "[ ERROR ] QnnDsp <E> in[0] has incorrect Value 68, expected >= 73.",
    "no properties registered for q::GenPad",
    "tcm_migration.cc:174:ERROR:Memory properties specified twice for operator My::Scale",
    "[ ERROR ] QnnDsp <E> Failed to load skel, error: 4000",
    "E QnnDsp :  <E> DspTransport.openSession qnn_open failed, 0x80000416",
    "[ ERROR ] QnnDsp <E> Transport layer setup failed: 14001",
    "QnnDsp <E> Request feature vtcm size with value 8388608 unsupported",
    "<E> fastrpc memory map for fd: 33 with length: 817889280 failed with error: 0x1",
    "createUnsignedPD unsigned PD or DSPRPC_GET_DSP_INFO not supported by HTP (err 1002)",
    "PF_VALIDATOR: ERROR: Also make sure ADSP_LIBRARY_PATH points to directory containing skels.",
    "[USER_INFO:HTP_CACHE] No cache record in the DLC matches the target device (HTP_V68_SM7325_2MB).",
    "error_code=311; error_message=Dlc container is bad; error_component=Dl Container; line_no=94",
    "Failed to interpret QNN context binary. Error code 30010.",
    "<E> BQ is not supported",
    "QnnDsp <E> RouterHexagon graph prepare failed 13",
    "QnnDsp <E> Context binary size calculation failed",
    "QNN.backendValidateOpConfig() failed for node `Conv_3` of type `Conv2d` with error code 3110",
    "KeyError: 'No translation registered for op type onnx_einsum.'",
    "error_code=7005; error_message= QnnGraph_addNode() failed for layer: U_48; error_component=QNN",
    "<E> unexpected GraphHtpSettings option 66",
    "dlopen failed: library libQnnHtpV75Stub.so not found",
    "SNPE is NOT supported for runtime DSP on the device.",
    "[ERROR] could not register the op package",
]


def test_every_text_of_the_table_is_found_in_a_line() -> None:
    found = {text: xdlc.explain(text) for text in LINES}
    causes = [each[0].cause for each in found.values()]
    assert causes == [each[2] for each in vendor_errors._table()["lines"]]


@pytest.mark.parametrize(
    ("given", "name", "component"),
    [
        (5005, "QNN_CONTEXT_ERROR_CREATE_FROM_BINARY", "QnnContext"),
        ("0x138d", "QNN_CONTEXT_ERROR_CREATE_FROM_BINARY", "QnnContext"),
        ("1002", "QNN_COMMON_ERROR_MEM_ALLOC", "QnnCommon"),
        ("QNN_GRAPH_ERROR_MEM_ALLOC", "QNN_COMMON_ERROR_MEM_ALLOC", "QnnCommon"),
        ("graph_error_finalize_failed", "QNN_GRAPH_ERROR_FINALIZE_FAILED", "QnnGraph"),
        ("0x30000138d", "QNN_CONTEXT_ERROR_CREATE_FROM_BINARY", "QnnContext"),
        ("0x80000406", "", "FastRPC"),
        (-2147482618, "", "FastRPC"),
        ("311", "", "SNPE"),
        ("E 01: Finalize went wrong, status 0x1786", "QNN_GRAPH_ERROR_FINALIZE_FAILED", "QnnGraph"),
        ("QnnDsp <E> Input[0] has incorrect Rank 6", "", "HTP validator"),
        ("error_code=402; error_message=x; error_component=Network", "", "SNPE"),
        ("create_device returns 14001 on this SoC", "QNN_DEVICE_ERROR_INVALID_CONFIG", "QnnDevice"),
        ("no size of the graph to be stored. Error 30002", "", "QnnSystem and serialized contexts"),
        ("q.cc:20:ERROR:could not create op: q::flat_to_vtcm", "", "HTP compiler"),
    ],
)
def test_numbers_and_names(given: str | int, name: str, component: str) -> None:
    (found,) = xdlc.explain(given)
    assert found.component == component
    assert name in found.subject
    assert found.cause
    assert found.fix


def test_a_number_of_snpe_has_the_cause_beside_it_and_a_negative_number_is_no_option() -> None:
    (found,) = xdlc.explain("error_code=1002; error_message=Value is invalid; error_component=GPU Runtime")
    assert (found.component, found.cause) == ("SNPE", "Value is invalid")
    assert "FastRPC" in CliRunner().invoke(tool.main, ["-2147482618"]).stdout


def test_every_number_has_a_range_cause_and_fix() -> None:
    table = vendor_errors._table()
    for number, name in table["names"].items():
        (found,) = xdlc.explain(number)
        assert name in found.subject
        assert found.cause
        assert found.fix
        assert found.component != "SNPE"
    assert all(re.fullmatch(r"\d+|other", key) for key in table["codes"])


def test_an_unknown_number_is_explained_by_its_range() -> None:
    (found,) = xdlc.explain(5999)
    assert found.component == "QnnContext"
    assert "5000 to 5999; nearest is 5014" in found.cause
    assert xdlc.explain(999_999)[0].component == xdlc.explain(1 << 80)[0].component == "unknown"
    with pytest.raises(UsageError):
        xdlc.explain(None)  # type: ignore[arg-type]
    assert xdlc.explain("x y " * 2000) == xdlc.explain("a\0b") == []
    assert xdlc.explain("9" * 9999) == []
    with pytest.raises(UsageError) as caught:
        xdlc.explain("QNN_GRAPH_ERROR_FINALISE_FAILED")
    assert "QNN_GRAPH_ERROR_FINALIZE_FAILED" in (caught.value.fix or "")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_a_log_is_scanned_and_each_error_counted_once(tmp_path: Path, encoding: str) -> None:
    log = tmp_path / "device.log"
    text = f"Anfang über alles\n{LINES[4]}\n  1.0ms {LINES[4]}\n{LINES[6]}\nall fine, status 0\n"
    log.write_bytes(text.encode(encoding))
    found = xdlc.explain(log)
    assert [(each.line, each.count) for each in found] == [(2, 2), (2, 2), (4, 1), (4, 1)]
    assert "4000" in found[1].subject
    run = CliRunner().invoke(tool.main, [str(log)])
    assert (run.exit_code, run.stdout.count("fix:")) == (0, 4)
    for start in ("line 2", "line 4", "  error, 2 times: 4000"):
        assert run.stdout.count(start) == 1


def test_logs_that_are_none(tmp_path: Path) -> None:
    log = tmp_path / "device.log"
    log.write_bytes(bytes(range(256)) * 400)
    assert xdlc.explain(log) == []
    assert CliRunner().invoke(tool.main, [str(log)]).exit_code == 1
    log.write_text("".join(f"error {number}x\n" for number in range(vendor_errors.MOST_READ + 1)))
    with pytest.raises(UsageError):
        xdlc.explain(log)
    with log.open("wb") as file:
        file.truncate(vendor_errors.MOST_BYTES + 1)
    with pytest.raises(UsageError):
        xdlc.explain(log)
    for path in (str(tmp_path / "missing.log"), tmp_path, "a/\0b", Path("/dev/zero")):
        with pytest.raises(StorageError):
            xdlc.explain(path)


def test_the_tool_takes_several_codes_or_a_line_in_words() -> None:
    run = CliRunner().invoke(tool.main, ["5005", "QNN_GRAPH_ERROR_FINALIZE_FAILED"])
    assert run.stdout.count("component:") == 2
    run = CliRunner().invoke(tool.main, ["Fail", "to", "do", "it:", "err", "5000"])
    assert (run.exit_code, run.stdout.count("component:")) == (0, 1)
    assert CliRunner().invoke(tool.main, ["hello"]).exit_code == 1


def test_a_code_that_xdlc_does_not_have_is_another_line_of_a_log(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("error[XD999]: what\nerror[XD104]: float ops\n")
    (explanation,) = xdlc.explain(tmp_path / "a.log")
    assert explanation.subject.startswith("XD104")
