"""A package for all accelerators, as generated and as a user fills it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from xdlc.udo.generator import Generated, generate_files

SHIMS = Path(__file__).parent / "shims"
WARNINGS = ("-Wall", "-Wextra", "-Werror")


def _tensor(kind: str, name: str, dtype: str, rank: str, more: str = "") -> str:
    mandatory = "false" if name in ("bias", "low", "high", "rest") else "true"
    return (
        f"<{kind}><Name>{name}</Name><Mandatory>{mandatory}</Mandatory><Datatype>{dtype}</Datatype>"
        f"<Shape><Rank>{rank}</Rank></Shape>{more}</{kind}>"
    )


def _param(name: str, dtype: str, default: str, more: str = "") -> str:
    return (
        f"<Parameter><Name>{name}</Name><Mandatory>false</Mandatory><Datatype>{dtype}</Datatype>"
        f"<Shape><Rank>SCALAR</Rank></Shape><Default>{default}</Default>{more}</Parameter>"
    )


def _backends(names: str) -> str:
    return "".join(f"<SupportedBackend>{name}</SupportedBackend>" for name in names.split())


def supplement(backend: str, dtype: str) -> str:
    return (
        f'<SupplementalOpDefList Backend="{backend}"><SupportedOps><OpName>Scale</OpName></SupportedOps>'
        f"<SupplementalOpDef><Name>Scale</Name><Input><Name>x</Name><Datatype>{dtype}</Datatype></Input>"
        f"<Output><Name>y</Name><Datatype>{dtype}</Datatype></Output></SupplementalOpDef>"
        "</SupplementalOpDefList>"
    )


SCALE = (
    "<OpDef><Name>Scale</Name>"
    + _tensor("Input", "x", "BACKEND_SPECIFIC", "4D")
    + _tensor("Input", "weight", "FLOAT_32", "1D", "<IsStaticTensor>true</IsStaticTensor>")
    + _tensor("Input", "bias", "FLOAT_32", "1D")
    + _tensor("Output", "y", "BACKEND_SPECIFIC", "4D")
    + _param("mode", "UINT_32", "soft", "<Enumeration><Enum>hard</Enum><Enum>soft</Enum></Enumeration>")
    + _param("factor", "FLOAT_32", "0.5")
    + _param("label", "STRING", 'a "text" \\ ?')
    + _tensor("Parameter", "table", "FLOAT_32", "2D")
    + _backends("CPU GPU DSP_V65 DSP_V66 DSP_V68 DSP_V73")
    + "</OpDef>"
)
"""What every kind of place looks like."""

HALF = (
    "<OpDef><Name>half</Name>"
    + _tensor("Input", "global", "FLOAT_32", "ND")
    + _tensor("Output", "kernel", "FLOAT_32", "ND")
    + _backends("CPU GPU DSP_V66 DSP_V73")
    + "</OpDef>"
)
"""Names that are keywords of OpenCL."""

PICK = (
    "<OpDef><Name>Pick</Name>"
    + _tensor("Input", "x", "UINT_8", "4D")
    + _tensor("Input", "low", "UINT_8", "4D")
    + _tensor("Input", "high", "UINT_8", "4D")
    + _tensor("Output", "y", "UINT_8", "4D")
    + _tensor("Output", "rest", "UINT_8", "4D")
    + _backends("DSP_V73")
    + "</OpDef>"
)
"""Inputs and outputs of which some may be left out."""


def collection(*opdefs: str, supplements: str = "") -> str:
    return (
        '<OpDefCollection PackageName="Edge" Domain="example" Version="1.0"><OpDefList>'
        f"{''.join(opdefs)}</OpDefList>{supplements}</OpDefCollection>"
    )


OPS = collection(
    SCALE,
    HALF,
    PICK,
    supplements="".join(supplement(core, "FLOAT_32") for core in ("CPU", "GPU"))
    + "".join(supplement(core, "UINT_8") for core in ("DSP_V65", "DSP_V66", "DSP_V68", "DSP_V73")),
)


def generated(text: str, folder: Path) -> Generated:
    config = folder / "edge.xml"
    config.write_text(text)
    (found,) = generate_files([config], folder / "out")
    return found


def run(command: Sequence[object], folder: Path, env: Mapping[str, str] | None = None, stdin: bytes = b""):
    return subprocess.run(
        [str(part) for part in command], cwd=folder, env=env, input=stdin, capture_output=True, timeout=120
    )


def build(command: Sequence[object], folder: Path) -> None:
    done = run(command, folder)
    assert done.returncode == 0, done.stderr.decode()


def between(text: str, first: str, last: str, new: str) -> str:
    """Return a text with what is from ``first`` up to ``last`` replaced."""
    head, rest = text.split(first, 1)
    return head + new + last + rest.split(last, 1)[1]


GPU_UNFILLED = '  return udo::fail(udo::unsupported, "fill the GPU kernel of Scale");'
GPU_KERNEL = "  /* compute element i, with mode factor */"
GPU_CODE = "  vstore_half(vload_half(i, x) * vload_half(0, weight) * factor + (mode == 1), i, y);"


def fill_gpu(package: Path) -> None:
    path = package / "jni/src/GPU/src/ops/Scale.cpp"
    text = path.read_text()
    assert GPU_UNFILLED in text
    assert GPU_KERNEL in text
    path.write_text(text.replace(GPU_UNFILLED, "  return udo::ok;").replace(GPU_KERNEL, GPU_CODE))


DSP_UNFILLED = "  /* >>> FILL: Scale_executeOp", "}\n\nstatic SnpeUdo_QuantizationType_t inputs"
DSP_CODE = """  const size_t elements = udo_dsp_elements(out0);
  float *reals = (float *)scratch;
  size_t i;
  if (scratch == NULL || ((uintptr_t)scratch & 127u) != 0) return SNPE_UDO_UNKNOWN_ERROR;
  for (i = 0; i < elements; ++i) reals[i] = udo_dsp_read(in0, i) * udo_dsp_read(in1, 0) * (float)param1;
  for (i = 0; i < elements && in2 != NULL; ++i) reals[i] += udo_dsp_read(in2, 0);
  for (i = 0; i < elements; ++i) {
    udo_dsp_write(out0, i, reals[i] + udo_dsp_read(param3, 3) + (param0 == Scale_mode_soft));
  }
  return SNPE_UDO_NO_ERROR;
"""
DSP_SCRATCH = "  (void)io;\n  return 0;"


def fill_dsp(package: Path) -> None:
    path = package / "jni/src/DSP_V65/src/ops/Scale.c"
    text = between(path.read_text(), *DSP_UNFILLED, DSP_CODE)
    path.write_text(
        text.replace(DSP_SCRATCH, "  return udo_dsp_elements(&io->outputs[0]) * sizeof(float);", 1)
    )
