import contextlib
import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xdlc
from xdlc import api, options
from xdlc.api import verbs
from xdlc.errors import UsageError


def test_unknown_options_are_named_with_what_is_near(models: Any) -> None:
    path = models.save(models.cnn())
    with pytest.raises(UsageError, match="convert has no option 'input_dim'") as caught:
        xdlc.convert(path, input_dim={"x": (1, 3, 16, 16)})
    assert "input_dims" in str(caught.value)
    with pytest.raises(UsageError, match="quantize has no option 'act_bw'") as caught:
        xdlc.quantize(xdlc.convert(path), [], act_bw=8)
    assert "nearest: act_bitwidth" in str(caught.value)


def test_arrays_come_by_name(models: Any) -> None:
    path = models.save(models.cnn())
    model, array = xdlc.convert(path), np.zeros((1, 3, 16, 16), np.float32)
    with pytest.raises(UsageError, match="feeds is of type ndarray"):
        xdlc.run(model, array)
    with pytest.raises(UsageError, match="no graph is named"):
        xdlc.quantize(model, {"x": array})
    with pytest.raises(UsageError, match="calibration sample 1 is of type str"):
        xdlc.quantize(model, iter([{"x": array}, "array"]))


@pytest.mark.parametrize("shape", ["1,3,16,16", (1, 3, 16, 16.0), 5, (1, 3, None, 16), (1, 3, 16, 2**32)])
def test_input_dims_are_whole_numbers(models: Any, shape: Any) -> None:
    with pytest.raises(UsageError, match="input_dims has the shape"):
        xdlc.convert(models.save(models.cnn()), input_dims={"x": shape})


@pytest.mark.parametrize(
    ("annotation", "right", "wrong"),
    [
        ("bool", [True, 0, np.True_], [None, "yes", 0.5, np.zeros(3), [1]]),
        ("int | None", [3, None, np.int64(3)], [True, 1.5, "3", np.zeros(3)]),
        ("float", [3, 0.5, np.float32(1)], [None, "1", np.zeros(3), b"1"]),
        ("Names", ["a", ["a"], ("a", "b"), {"a": 1}.keys()], [None, 5, [None], [["a"]], b"a"]),
        ("Mapping[str, int] | None", [{}, {"a": 1}, None], [[], {"a": "b"}, {None: 1}]),
        ("tuple[int, int]", [(1, 2), [1, 2]], [{1, 2}, (1, "2"), 3]),
        ("Notify | None", [print, None], [0, "print"]),
        ("Model | PathLike", ["m.dlc", Path("m.dlc")], [None, 0, b"m.dlc", object()]),
        ("Literal['a', 'b']", ["a", "c", 5], [np.zeros(3), []]),
        ("NamesForCheckersAlone | None", [None, 1, "a"], []),
    ],
)
def test_types_of_arguments(annotation: str, right: list[Any], wrong: list[Any]) -> None:
    names = {**vars(typing), **vars(options), "Model": xdlc.Model}
    kind = verbs.evaluated(annotation, names)
    for value in right:
        verbs.check_type("verb", "option", value, kind)
    for value in wrong:
        with pytest.raises(UsageError, match="verb: option is of type"):
            verbs.check_type("verb", "option", value, kind)


def test_a_wrong_type_names_the_right_values() -> None:
    with pytest.raises(UsageError) as caught:
        verbs.check_type("verb", "option", ["a"], typing.Literal["a", "b"])
    assert caught.value.fix == "pass 'a' or 'b'"


@pytest.mark.parametrize("option", ["notify", "step"])
@pytest.mark.parametrize("verb", ["convert", "quantize", "prepare", "prepare_hta"])
def test_a_callback_with_other_arguments_is_refused_before_any_work(verb: str, option: str) -> None:
    names = {"notify": "(line)", "step": "(title, done, total)"}
    others: tuple[Any, ...] = (lambda: None, lambda a, b: None, lambda a, b, c, d: None)
    others += (lambda a, b, c: None,) if option == "notify" else (lambda a: None,)
    for callback in others:
        with pytest.raises(UsageError, match=f"{verb}: {option} does not accept the arguments") as caught:
            getattr(xdlc, verb)("no.file", *([[]] if verb == "quantize" else []), **{option: callback})
        assert f"function{names[option]}" in str(caught.value.fix)
    for callback in (print, lambda *seen: None, lambda a, b=0, c=0: None):
        with pytest.raises(xdlc.XdlcError) as caught:
            getattr(xdlc, verb)("no.file", *([[]] if verb == "quantize" else []), **{option: callback})
        assert option not in str(caught.value)


def test_shapes_and_examples_stand_in_one_place_in_both_verbs(models: Any) -> None:
    path = models.save(models.cnn())
    shapes = {"x": (1, 3, 16, 16)}
    assert xdlc.check(path, shapes).problems == ()
    assert xdlc.convert(path, shapes).main.inputs[0].shape == shapes["x"]
    with pytest.raises(UsageError, match="example_inputs is the string 'sm8650'") as caught:
        xdlc.check(path, "sm8650")
    assert caught.value.fix == "to name a SoC, pass target='sm8650'"
    for verb in (xdlc.check, xdlc.convert):
        with pytest.raises(UsageError, match="input_dims is of type tuple"):
            verb(path, input_dims=(np.zeros(3),))


def test_none_by_name_is_the_default(models: Any) -> None:
    path = models.save(models.cnn())
    xdlc.convert(path, disable_batchnorm_folding=None, plugin=None, unroll_loops=None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the model is of type NoneType"):
        xdlc.convert(path=None)  # type: ignore[arg-type]


def test_types_are_stated_in_words(models: Any) -> None:
    path = models.save(models.cnn())
    with pytest.raises(UsageError) as caught:
        xdlc.convert(path, define_symbol={"n": 2.5})  # type: ignore[dict-item]
    assert "an element of another type" in caught.value.problem
    assert caught.value.fix == "pass dict[str, int] or None"


def test_no_limit_is_nan() -> None:
    with pytest.raises(UsageError, match="quantize: fail_below is nan"):
        xdlc.quantize(xdlc.Model({}), [], fail_below=float("nan"))


@pytest.mark.parametrize("value", [None, 1.5, "\0", "\ud800", [None], {None: 1}, {1, 2}, object(), b"x"])
def test_arguments_of_any_type_end_in_a_result_or_an_xdlc_error(models: Any, value: Any) -> None:
    path = models.save(models.cnn())
    for option in ("batch", "out_name", "define_symbol", "set_inputs", "udo_config_paths", "plugin"):
        with contextlib.suppress(xdlc.XdlcError):
            xdlc.convert(path, **{option: value})
    for call in (xdlc.load, xdlc.save, xdlc.verdicts, xdlc.prepare_hta, xdlc.quantize, xdlc.to_onnx):
        for arguments in ([value, value], [path, value]):
            with contextlib.suppress(xdlc.XdlcError):
                call(*arguments)


def test_a_string_is_no_list_of_names() -> None:
    with pytest.raises(UsageError, match="operators is the string 'Conv'") as caught:
        api.draft_udo_config("m.onnx", operators="Conv")
    assert caught.value.fix == "pass a list: operators=['Conv']"


def test_calls_that_do_not_fit_are_xdlc_errors(models: Any) -> None:
    for call in (
        lambda: xdlc.load(None),
        lambda: xdlc.load(),
        lambda: xdlc.convert(3),
        lambda: xdlc.convert("a", {}, "batch"),
        lambda: xdlc.prepare(xdlc.Model(), sox=["sm8650"]),
    ):
        with pytest.raises(UsageError) as caught:
            call()
        assert caught.value.fix


def keyword_only(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters
    return {name: each for name, each in parameters.items() if each.kind is each.KEYWORD_ONLY}


def test_signatures_state_every_option_of_what_they_call() -> None:
    from xdlc.converter.frontends import Frontend
    from xdlc.converter.pipeline import Options
    from xdlc.prepare.edit import edit
    from xdlc.prepare.htp import prepare_all
    from xdlc.quant import quantize
    from xdlc.runtime.export import export
    from xdlc.udo.load import load

    internal = {"diagnostics", "boundary", "udos", "input_dims", "failed_passes", "advise", "path"}
    for verb, callees, values in (
        (api.convert, (Frontend.convert, load), {each.name: each.default for each in fields(Options)}),
        (api.quantize, (quantize,), {}),
        (api.prepare, (prepare_all, edit), {}),
        (api.to_onnx, (export,), {}),
    ):
        stated = keyword_only(verb)
        expected = {name: each.default for callee in callees for name, each in keyword_only(callee).items()}
        expected |= values
        assert expected.keys() - internal <= stated.keys()
        for name, default in expected.items():
            if name not in internal and default is not MISSING and not isinstance(default, Mapping):
                assert stated[name].default == default, (verb, name)
    own = {"target", "converted"}
    assert keyword_only(api.check).keys() == keyword_only(api.convert).keys() - {"notify", "step"} | own


def test_errors_speak_python_to_python_and_flags_to_tools(models: Any, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from xdlc.cli.tools.onnx_to_dlc import main as convert
    from xdlc.cli.tools.quantize import main as quant

    path, dlc = models.save(models.cnn()), tmp_path / "m.dlc"
    with pytest.raises(UsageError, match="input_dims names 'z'"):
        xdlc.convert(path, input_dims={"z": (1,)})
    words = [str(path), "-o", str(dlc)]
    result = CliRunner().invoke(convert, ["-i", *words, "-d", "z", "1"])
    assert "--input-dim names 'z'" in result.stderr
    assert CliRunner().invoke(convert, ["-i", *words]).exit_code == 0
    np.savez(tmp_path / "s.npz", x=np.zeros((1, 1, 3, 16, 16), np.float32))
    with pytest.raises(UsageError) as caught:
        xdlc.quantize(dlc, str(tmp_path / "s.npz"), weights_bitwidth=16)
    assert "act_bitwidth=16" in caught.value.fix
    result = CliRunner().invoke(
        quant, ["-i", str(dlc), "-l", str(tmp_path / "s.npz"), "--weights_bitwidth", "16"]
    )
    assert result.stderr.startswith("xdlc-quantize: error[XD214]: --weights_bitwidth: ")
    assert "--act-bitwidth 16 too, or --weights_bitwidth 8" in result.stderr


def test_lists_that_differ_in_length_are_no_array(models: Any) -> None:
    model = xdlc.convert(models.save(models.cnn()))
    ragged = {model.main.inputs[0].name: [[1, 2], [3]]}
    for call in (lambda: xdlc.run(model, ragged), lambda: xdlc.quantize(model, [ragged])):
        with pytest.raises(UsageError, match="is not an array"):
            call()
