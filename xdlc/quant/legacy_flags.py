"""Flags of the vendor's quantizers, old ones too, as options of this quantizer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from xdlc.errors import UsageError
from xdlc.quant.range_methods import legacy

RENAMED = {
    "weights_bw": "weights_bitwidth",
    "act_bw": "act_bitwidth",
    "bias_bw": "bias_bitwidth",
    "axis_quant": "use_per_channel_quantization",
    "float_fallback": "enable_float_fallback",
    "target_soc_model": "target",
}
"""Flags that go by another name here."""

_METHODS = ("param_quantizer_calibration", "act_quantizer_calibration")
_OPTIMIZATIONS = {"cle": "cle", "bc": "bias_correction"}
_NOTHING_TO_DO = {
    "enable_per_row_quantized_bias": "a bias always has the scales of its input times its weights",
    "use_encoding_optimizations": "encodings are chosen that way anyway",
    "use_symmetric_quantize_weights": "weights are symmetric unless --param_quantizer_schema is asymmetric",
    "override_params": "encodings that the model has are kept anyway; "
    "--ignore_quantization_overrides drops them",
}


def modern(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return quantization options for flags under any of their names, and notices for the user.

    Args:
        given: Values by the name of a flag of ``xdlc-quant``, ``snpe-dlc-quant``, ``snpe-dlc-quantize`` or
            ``qairt-quantizer``; None was not given.

    Raises:
        UsageError: For flags that contradict each other, and for those whose effect is not supported.
    """
    asked = {name: value for name, value in given.items() if value is not None}
    if asked.get("use_adjusted_weights_quantizer") and asked.pop("use_enhanced_quantizer", None):
        asked.setdefault("act_quantizer", "enhanced")  # the quantizer of weights is the adjusted one
    options: dict[str, Any] = {}
    notices: list[str] = []

    def put(flag: str, name: str, value: Any) -> None:
        if name in options and options[name] != value:
            raise UsageError(
                f"--{flag} sets {name} to {value}, another flag to {options[name]}",
                where=f"--{flag}",
                fix="give one of them",
            )
        options[name] = value

    for flag, value in asked.items():
        if flag in _NOTHING_TO_DO:
            notices.append(f"--{flag} changes nothing: {_NOTHING_TO_DO[flag]}")
        elif flag in _TRANSLATED:
            _TRANSLATED[flag](flag, value, put)
        else:
            put(flag, RENAMED.get(flag, flag), value)
    return options, notices


_Put = Callable[[str, str, Any], None]


def _same(*names: str, fixed: Any = None) -> Callable[[str, Any, _Put], None]:
    """Return a translation that sets options to the flag's value, or to a fixed one."""

    def translate(flag: str, value: Any, put: _Put) -> None:
        for name in names:
            put(flag, name, value if fixed is None else fixed)

    return translate


def _quantizer(kind: str) -> Callable[[str, Any, _Put], None]:
    def translate(flag: str, value: Any, put: _Put) -> None:
        method, schema = legacy(value)
        put(flag, f"{kind}_quantizer_calibration", method)
        if schema is not None:
            put(flag, f"{kind}_quantizer_schema", schema)

    return translate


def _optimizations(flag: str, value: Any, put: _Put) -> None:
    names = [name for name in value if name]
    for name in names:
        if name not in _OPTIMIZATIONS:
            raise UsageError(
                f"--{flag} knows {', '.join(_OPTIMIZATIONS)}, not {name!r}", fix="use --algorithms instead"
            )
    put(flag, "algorithms", tuple(_OPTIMIZATIONS[name] for name in names))


def _algorithms(flag: str, value: Any, put: _Put) -> None:
    put(flag, "algorithms", tuple(_OPTIMIZATIONS.get(name, name) for name in value))


def _no_weights(flag: str, value: Any, put: _Put) -> None:
    raise UsageError(
        "leaving weights in float beside quantized activations has no kernel on any target",
        where=f"--{flag}",
        fix="omit the flag, or keep single ops in float with --quantization_overrides",
    )


def _steps(flag: str, value: Any, put: _Put) -> None:
    put(flag, flag, quantization_steps(value))


_TRANSLATED: dict[str, Callable[[str, Any, _Put], None]] = {
    "bitwidth": _same("weights_bitwidth", "act_bitwidth", "bias_bitwidth"),
    "param_quantizer": _quantizer("param"),
    "act_quantizer": _quantizer("act"),
    "use_enhanced_quantizer": _same(*_METHODS, fixed="sqnr"),
    "use_adjusted_weights_quantizer": _same(_METHODS[0], fixed="min-max"),
    "optimizations": _optimizations,
    "algorithms": _algorithms,
    "apply_algorithms": _algorithms,
    "no_weight_quantization": _no_weights,
    "restrict_quantization_steps": _steps,
}


def quantization_steps(text: str) -> tuple[int, int]:
    """Return the smallest and largest step of ``-0x80,0x7F`` (or ``-0x80 0x7F``).

    Raises:
        UsageError: If the text is not two whole numbers, the first below the second.
    """
    words = re.split(r"[,\s]+", text.strip())
    try:
        low, high = (int(word, 0) for word in words)
        if low < 0 < high:
            return low, high
    except ValueError:
        pass
    raise UsageError(
        f"{text!r} is no range of steps",
        where="restrict_quantization_steps",
        fix="give the smallest and the largest step around zero, like -0x80,0x7F or -128,127",
    )
