"""What accelerators take of operations, without a compiler."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.udo.generator.device_package import HALF, OPS, SCALE, collection, generated, supplement
from xdlc.errors import ModelError
from xdlc.udo.generator.cpp import scalar_default
from xdlc.udo.generator.gpu import kernel_places, kernel_type
from xdlc.udo.generator.htp import forms, takes_gaps, tensor_classes
from xdlc.udo.generator.template_context import core_of


def simple(
    backends: str, *, name: str = "Join", repeated: str = "", dtype: str = "FLOAT_32", rank: str = "4D"
) -> str:
    supported = "".join(f"<SupportedBackend>{backend}</SupportedBackend>" for backend in backends.split())
    tensors = "".join(
        f"<{kind}><Name>{kind.lower()}</Name><Mandatory>true</Mandatory><Datatype>{dtype}</Datatype>"
        f"<Shape><Rank>{rank}</Rank></Shape>{repeated if kind == 'Input' else ''}</{kind}>"
        for kind in ("Input", "Output")
    )
    return f"<OpDef><Name>{name}</Name>{tensors}{supported}</OpDef>"


REPEATED = "<Repeated>true</Repeated>"


def test_dsps_do_not_get_an_op_with_a_repeated_input(tmp_path: Path) -> None:
    found = generated(collection(simple("CPU DSP_V66 DSP_V73", repeated=REPEATED)), tmp_path)
    assert [core.name for core in found.package.cores] == ["CPU"]
    (told,) = found.notices
    assert "Repeated, but DSP_V66, DSP_V73 cannot have an unknown number of tensors" in told
    assert "no library" in told


def test_other_ops_of_the_package_stay_on_the_dsp(tmp_path: Path) -> None:
    ops = (simple("GPU DSP_V73", repeated=REPEATED), simple("DSP_V73", name="Plain"))
    output = generated(collection(*ops), tmp_path)
    dsp = output.package.core("DSP_V73")
    assert dsp is not None
    assert [op.type for op in dsp.ops] == ["Plain"]
    assert not (output.outcome.folder / "jni/src/DSP_V73/src/ops/Join.cpp").exists()
    assert "Join" not in (output.outcome.folder / "jni/src/DSP_V73/src/EdgeInterface.cpp").read_text()


def test_an_op_that_no_core_can_have_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match="no library can implement the operation: 'input' is repeated"
    ) as caught:
        generated(collection(simple("DSP_V73", repeated=REPEATED)), tmp_path)
    assert "operation Join" in str(caught.value)
    assert "fix: let the CPU or the GPU execute it" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_what_accelerators_take_in_another_way_is_told(tmp_path: Path) -> None:
    assert generated(OPS, tmp_path).notices == (
        "Scale on GPU: kernels do not get tensors as parameters (table): make them static inputs",
        "Scale on DSP_V68: parameter 'label' is a string, so each model must set this parameter",
        "half on DSP_V73: tensors have at most 4 axes, even if their definition allows any rank: "
        "global, kernel",
    )


def test_types_that_a_dsp_does_not_compute_with_are_told(tmp_path: Path) -> None:
    found = generated(collection(simple("DSP_V66 DSP_V73", dtype="UINT_16")), tmp_path)
    assert found.notices == (
        "Join on DSP_V66: input 'input' is uint16, but activations on this core are float32, ufixed8",
        "Join on DSP_V66: output 'output' is uint16, but activations on this core are float32, ufixed8",
    )


@pytest.mark.parametrize(
    ("backends", "dtype", "told"),
    [
        ("CPU DSP_V66", "UINT_8", 1),
        ("CPU DSP_V66", "FLOAT_32", 0),
        ("CPU", "UINT_8", 0),
        ("DSP_V66", "UINT_8", 0),
    ],
)
def test_integers_on_a_cpu_that_a_dsp_may_quantize_are_told(
    tmp_path: Path, backends: str, dtype: str, told: int
) -> None:
    found = generated(collection(simple(backends, dtype=dtype)), tmp_path)
    assert len(found.notices) == told
    if told:
        assert found.notices[0].startswith("Join on CPU: input, output are plain integers there")


@pytest.mark.parametrize(
    ("backend", "versions", "cores"),
    [("DSP", "v60 and v68", ["DSP_V60", "DSP_V68"]), ("HTP", "v68", ["DSP_V68"])],
)
def test_a_dsp_without_a_version_is_told(
    tmp_path: Path, backend: str, versions: str, cores: list[str]
) -> None:
    found = generated(collection(simple(backend)), tmp_path)
    assert len(found.notices) == 1
    assert f"Join: {backend} has no version, so xdlc assumes {versions}; name" in found.notices[0]
    assert [core.name for core in found.package.cores] == cores


def test_what_holds_for_several_operations_is_told_once(tmp_path: Path) -> None:
    found = generated(collection(*(simple("HTP", name=name) for name in ("A", "B"))), tmp_path)
    (told,) = found.notices
    assert told.startswith("A, B: HTP has no version, ")
    assert "v68" in told


def test_a_version_beside_a_wider_name_is_enough(tmp_path: Path) -> None:
    found = generated(collection(simple("DSP DSP_V73")), tmp_path)
    assert [core.name for core in found.package.cores] == ["DSP_V73"]
    assert found.notices == ()


def test_a_supplement_of_a_wider_name_speaks_for_all_versions(tmp_path: Path) -> None:
    wide = "".join(supplement(name, dtype) for name, dtype in (("DSP", "UINT_8"), ("HTP_FP16", "FLOAT_16")))
    other = supplement("CPU", "FLOAT_32") + supplement("GPU", "FLOAT_32")
    package = generated(collection(SCALE, supplements=wide + other), tmp_path).package
    old, new = package.core("DSP_V65"), package.core("DSP_V68")
    assert old is not None
    assert new is not None
    assert [dtype.name for dtype in old.ops[0].inputs[0].types_on(old)] == ["uint8"]
    assert [dtype.name for dtype in new.ops[0].inputs[0].types_on(new)] == ["float16"]


def test_versions_of_a_json_configuration_are_cores(tmp_path: Path) -> None:
    types = {"CPU": "FLOAT_32", "GPU": "FLOAT_32", "DSP": "UINT_8"}
    operator = {
        "type": "Mix",
        "inputs": [{"name": "x", "per_core_data_types": types, "tensor_layout": "NHWC"}],
        "outputs": [{"name": "y", "per_core_data_types": types}],
        "core_types": ["CPU", "GPU", "DSP"],
        "dsp_arch_types": ["v66", "v68", "v73"],
    }
    text = {"UdoPackage_0": {"Operators": [operator], "UDO_PACKAGE_NAME": "Edge"}}
    output = generated(json.dumps(text), tmp_path)
    assert [core.name for core in output.package.cores] == ["CPU", "GPU", "DSP_V66", "DSP_V68", "DSP_V73"]
    x = output.package.ops[0].inputs[0]
    assert [[dtype.name for dtype in x.types_on(core)] for core in output.package.cores[:4]] == [
        ["float32"],
        ["float32"],
        ["uint8"],
        ["uint8"],
    ]
    assert output.notices == (
        "Mix on DSP_V68: tensors have at most 4 axes, even if their definition allows any rank: y",
    )


def test_registrations_do_not_explode(tmp_path: Path) -> None:
    types = "</Datatype><Datatype>".join(["FLOAT_32", "UINT_8", "UINT_16", "INT_32"])
    inputs = "".join(
        f"<Input><Name>in{i}</Name><Mandatory>true</Mandatory><Datatype>{types}</Datatype>"
        f"{'<Datatype>FLOAT_16</Datatype>' if i == 1 else ''}{'<Datatype>INT_8</Datatype>' if i == 2 else ''}"
        "<Shape><Rank>4D</Rank></Shape></Input>"
        for i in range(3)
    )
    op = simple("DSP_V73").replace("</Name>", f"</Name>{inputs}", 1)
    found = generated(collection(op), tmp_path).package
    dsp = found.core("DSP_V73")
    assert dsp is not None
    assert [set(form.classes) for form in forms(dsp.ops[0], dsp)] == [{"Tensor"}]


def test_entries_do_not_explode(tmp_path: Path) -> None:
    tensor = "<Mandatory>false</Mandatory><Datatype>FLOAT_32</Datatype><Shape><Rank>4D</Rank></Shape>"
    more = "".join(f"<Input><Name>in{i}</Name>{tensor}</Input>" for i in range(40))
    op = simple("DSP_V73").replace("</Input>", f"</Input>{more}", 1)
    output = generated(collection(op), tmp_path)
    dsp = output.package.core("DSP_V73")
    assert dsp is not None
    assert [len(form.entry.inputs) for form in forms(dsp.ops[0], dsp)[::2]] == list(range(1, 42))
    assert not takes_gaps(dsp.ops[0], dsp)
    (notice,) = output.notices
    assert notice.startswith("Join on DSP_V73: too many combinations of types or optional tensors")


def test_sources_are_those_of_all_versions_of_a_group(tmp_path: Path) -> None:
    package = generated(collection(SCALE.replace("BACKEND_SPECIFIC", "FLOAT_32"), HALF), tmp_path).package
    old, new = package.core("DSP_V68"), package.core("DSP_V73")
    assert old is not None
    assert new is not None
    assert [op.type for op in old.ops] == ["Scale", "half"]
    assert (old.owner, new.owner) == ("DSP_V68", "DSP_V68")
    assert tensor_classes(old.ops[1].inputs[0].types_on(old)) == ("PlainFloatTensor", "PlainFloat16Tensor")


@pytest.mark.parametrize(
    ("dtype", "default", "literal"),
    [
        ("INT_64", "-9223372036854775808", "INT64_MIN"),
        ("UINT_64", "18446744073709551615", "18446744073709551615ull"),
        ("UINT_32", "4294967295", "4294967295ll"),
        ("BOOL_8", "true", "1"),
        ("FLOAT_32", "0.1", "0.1f"),
        ("FLOAT_32", "inf", ""),
        ("FLOAT_64", "1e300", "1e+300"),
        ("STRING", "7", '"7"'),
    ],
)
def test_defaults_are_literals(tmp_path: Path, dtype: str, default: str, literal: str) -> None:
    param = (
        f"<Parameter><Name>p</Name><Mandatory>false</Mandatory><Datatype>{dtype}</Datatype>"
        f"<Shape><Rank>SCALAR</Rank></Shape><Default>{default}</Default></Parameter>"
    )
    op = simple("GPU").replace("<SupportedBackend>", f"{param}<SupportedBackend>", 1)
    gpu = generated(collection(op), tmp_path).package.core("GPU")
    assert gpu is not None
    assert scalar_default(gpu.ops[0].params[0], gpu) == literal


def test_names_in_kernels_are_free(tmp_path: Path) -> None:
    text = simple("GPU").replace("<Name>input</Name>", "<Name>float4</Name>")
    text = text.replace("<Name>output</Name>", "<Name>elements</Name>")
    package = generated(collection(text), tmp_path).package
    gpu = package.core("GPU")
    assert gpu is not None
    assert [name for _, name in kernel_places(gpu.ops[0])] == ["float4_2", "elements_2"]
    assert [kernel_type(place, gpu) for place, _ in kernel_places(gpu.ops[0])] == [
        "__global const half *",
        "__global half *",
    ]


@pytest.mark.parametrize(
    ("dtype", "type", "member"),
    [
        ("INT_64", "std::int64_t", "integer"),
        ("UINT_32", "std::int64_t", "integer"),
        ("FLOAT_32", "double", "real"),
    ],
)
def test_scalars_are_macros_in_kernels(tmp_path: Path, dtype: str, type: str, member: str) -> None:
    param = (
        f"<Parameter><Name>p</Name><Mandatory>true</Mandatory><Datatype>{dtype}</Datatype>"
        "<Shape><Rank>SCALAR</Rank></Shape></Parameter>"
    )
    text = simple("GPU").replace("<SupportedBackend>", f"{param}<SupportedBackend>", 1)
    folder = generated(collection(text), tmp_path).outcome.folder
    code = (folder / "jni/src/GPU/src/ops/Join.cpp").read_text()
    assert f'kernel.define("p", param0 == nullptr ? {type}(0) : param0->{member});' in code


def test_backends_that_are_no_processor_have_no_core() -> None:
    assert core_of("SAVER") is None
