from pathlib import Path

import pytest
from click.testing import CliRunner

import xdlc
from tests.support.cache_models import put_cache
from tests.support.htp_models import cnn
from xdlc.cli.tools.graph_prepare import main
from xdlc.errors import UsageError


def tool(*args: object) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    return result.exit_code, result.output


@pytest.fixture
def dlc(tmp_path: Path) -> Path:
    path = tmp_path / "c.dlc"
    model = cnn(quantized=True)
    put_cache(model, "sm8450")
    put_cache(model, "sm8650")
    model.save(path)
    return path


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--check", "sm8450"], 0, "arch: v75, accepted: v69 or lower"),
        (["--check", "sm8450,sm8750"], 0, "usable"),
        (["--check", "sm7450"], 5, "vtcm: 8 MB, accepted: 2 MB or less"),
        (["--check", "sm7450"], 5, "c.dlc --soc sm7450"),
        (["--check", "sm8450,sm7450"], 5, "none of 2 cache(s) is usable on sm7450"),
        (["--check", "sm8750", "--mode", "strict"], 5, "soc: sm8650, accepted: sm8750"),
        (["--check", "sm8650", "--sdk", "2.40"], 5, "sdk: 2.51.0, accepted: 2.40 or older"),
        (["--check", "sm8650", "--outputs", "y,pool"], 5, "outputs: 'y', accepted: 'pool', 'y'"),
        (["--check", "sm8650", "--outputs", "pol"], 2, "nearest: pool"),
        (["--check", "sm8250"], 5, "sm8250 has no HTP"),
        (["--check", "sm9999"], 2, "unknown SoC 'sm9999'"),
        (["--check", "sm8650", "--partition"], 2, "--partition has no effect with --check"),
        (["--outputs", "y"], 2, "--outputs requires --check"),
    ],
)
def test_check_tells_and_exits(dlc: Path, options: list[str], code: int, said: str) -> None:
    before = sorted(dlc.parent.iterdir())
    sdk = [] if "--sdk" in options or "--check" not in options else ["--sdk", "2.51"]
    exit_code, shown = tool("--input-dlc", dlc, *options, *sdk)
    assert (exit_code, said in shown) == (code, True), shown
    assert sorted(dlc.parent.iterdir()) == before


def test_model_without_caches_has_none_to_use(tmp_path: Path) -> None:
    cnn(quantized=True).save(tmp_path / "n.dlc")
    code, shown = tool("--input-dlc", tmp_path / "n.dlc", "--check", "sm8650")
    assert code == 5
    assert "there is no cache on sm8650" in shown


def test_float_model_has_to_be_quantized_for_a_soc_without_fp16(tmp_path: Path) -> None:
    model = cnn(quantized=False)
    put_cache(model, "sm8550", vtcm_mb=2)
    model.save(tmp_path / "f.dlc")
    code, shown = tool("--input-dlc", tmp_path / "f.dlc", "--check", "sxr1230p", "--sdk", "2.51")
    assert code == 5
    assert "fp16: 5 op(s) in floating point, accepted: none" in shown
    assert "quantize the model first: 5 op(s) are in floating point" in shown


def test_python_has_the_verb(dlc: Path) -> None:
    found = xdlc.verdicts(dlc, "sm8450", mode="strict", sdk="2.51")
    assert [verdict.usable for verdict in found] == [True, False]
    with pytest.raises(UsageError, match="has no option 'strict'"):
        xdlc.verdicts(dlc, "sm8450", strict=True)
