from typing import Any

import pytest

from xdlc.errors import ConstraintError, UsageError
from xdlc.prepare.htp.targets import targets
from xdlc.runtime.htp import CompileOptions


def named(*socs: str, archs: tuple[str | int, ...] = (), **options: Any) -> list[tuple[str, int | None]]:
    found = targets(socs, archs, CompileOptions(**options))
    return [(target.name, target.options.vtcm_mb) for target in found]


def test_socs_come_as_named_once_with_all_of_their_vtcm() -> None:
    wanted = [("qcs6490", 2), ("sm8650", 8), ("sm8350", 4), ("sm8550", 8)]
    assert named("qcs6490", "SM8650", "sm8350", "43", "sm8550") == wanted
    assert named("qcm6490", "sm8650", "sm8350", "sm8550") == wanted


def test_vtcm_can_be_less() -> None:
    assert named("sm8650", "sm8450", vtcm_mb=2) == [("sm8650", 2), ("sm8450", 2)]
    assert named("sm8650", vtcm_mb=0) == [("sm8650", 8)]


def test_an_architecture_is_the_vendors_soc_of_it_with_the_smallest_vtcm() -> None:
    assert named(archs=("v73", 68, "V75")) == [("sm8550", 2), ("sm8350", 2), ("sm8650", 8)]


@pytest.mark.parametrize(
    ("socs", "archs", "options", "kind", "said"),
    [
        ((), (), {}, UsageError, "no SoC is named"),
        (("sm8650",), ("v73",), {}, UsageError, "htp_archs and SoCs exclude each other"),
        ((), ("v73",), {"vtcm_mb": 2}, UsageError, "htp_archs and vtcm_override exclude each other"),
        ((), ("v74",), {}, UsageError, "unknown DSP architecture v74"),
        ((), ("sm8650",), {}, UsageError, "'sm8650' is not an architecture"),
        ((), ("v66",), {}, ConstraintError, "v66 has no HTP"),
        (("sm8250",), (), {}, ConstraintError, "sm8250 has no HTP"),
        (("qcs6490",), (), {"vtcm_mb": 4}, UsageError, "qcs6490 has 2 MB of VTCM, not 4 MB"),
    ],
)
def test_what_cannot_be_compiled_for_is_named(
    socs: tuple[str, ...], archs: tuple[str, ...], options: dict[str, Any], kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        named(*socs, archs=archs, **options)
