"""A package of two operations with all forms of operands, and their kernels."""

from __future__ import annotations

from pathlib import Path

from xdlc.udo.generator import generate_files

PACKAGE = "TwoOps"


def _operand(
    tag: str, name: str, dtype: str, rank: str, text: str = "", *, optional: bool = False, more: str = ""
) -> str:
    return (
        f"<{tag}><Name>{name}</Name><Mandatory>{'false' if optional else 'true'}</Mandatory>"
        f"<Datatype>{dtype}</Datatype><Shape><Rank>{rank}</Rank><Text>{text}</Text></Shape>{more}</{tag}>"
    )


_MODES = "<Enumeration><Enum>SUM</Enum><Enum>MAX</Enum></Enumeration>"

_TABLE = "<Default>[[1, 2], [3, 4.5]]</Default>"

CONFIG = f"""<OpDefCollection PackageName="{PACKAGE}" Domain="example" Version="1.0">
<OpDefList>
<OpDef>
<Name>Blend</Name>
<Description><Content>Joins any number of tensors of one shape; ends with \\</Content></Description>
{_operand("Input", "in[0]", "FLOAT_32", "ND")}
{_operand("Input", "mask", "FLOAT_32", "ND", optional=True)}
{_operand("Input", "rest", "FLOAT_32", "ND", optional=True, more="<Repeated>true</Repeated>")}
{_operand("Output", "out[0]", "FLOAT_32", "ND")}
{_operand("Parameter", "mode", "UINT_32", "SCALAR", optional=True, more="<Default>SUM</Default>" + _MODES)}
{_operand("Parameter", "coeff", "FLOAT_32", "SCALAR", optional=True, more="<Default>1.5</Default>")}
{_operand("Parameter", "label", "STRING", "SCALAR", optional=True)}
<SupportedBackend>CPU</SupportedBackend>
</OpDef>
<OpDef>
<Name>Affine</Name>
{_operand("Input", "x", "FLOAT_32", "4D", "[n, h, w, c]")}
{_operand("Input", "weight", "FLOAT_32", "1D", "[c]", more="<IsStaticTensor>true</IsStaticTensor>")}
{_operand("Output", "y", "FLOAT_32", "4D", "[n, h, w, c]")}
{_operand("Parameter", "bias", "FLOAT_32", "1D", "[c]")}
{_operand("Parameter", "table", "FLOAT_32", "2D", optional=True, more=_TABLE)}
{_operand("Parameter", "shift", "INT_32", "SCALAR", optional=True)}
<SupportedBackend>CPU</SupportedBackend>
</OpDef>
</OpDefList>
</OpDefCollection>
"""

BLEND = """
udo::Status execute(const Inputs& in, const Outputs& out, const Params& params, udo::Scratch scratch) {
  float* sums = scratch.as<float>();
  for (std::size_t i = 0; i < out.out_0.size(); ++i) {
    sums[i] = in.in_0[i];
    for (const auto& more : in.rest) {
      if (params.mode == ModeEnum::SUM) sums[i] += more[i];
      if (params.mode == ModeEnum::MAX && more[i] > sums[i]) sums[i] = more[i];
    }
    if (in.mask != nullptr) sums[i] *= (*in.mask)[i];
  }
  for (std::size_t i = 0; i < out.out_0.size(); ++i) {
    out.out_0[i] = sums[i] * params.coeff + (params.label == nullptr ? 0.0f : 1.0f);
  }
  return udo::ok;
}
"""

BLEND_SCRATCH = """
std::size_t scratch_bytes(const Inputs&, const Outputs& out, const Params&) {
  return out.out_0.size() * sizeof(float);
}
"""

AFFINE = """
udo::Status execute(const Inputs& in, const Outputs& out, const Params& params, udo::Scratch) {
  const std::size_t channels = in.x.dim(-1);
  if (params.shift == -98) throw 1;
  if (params.shift == -99) throw std::bad_alloc();
  const float add = params.shift.has_value() ? static_cast<float>(*params.shift) : 0.0f;
  const udo::Input<float>& table = *params.table;
  const float last = table[table.size() - 1] + static_cast<float>(table.dim(0));
  for (std::size_t i = 0; i < in.x.size(); ++i) {
    out.y[i] = in.x[i] * in.weight[i % channels] + params.bias[i % channels] + add + last;
  }
  return udo::ok;
}
"""

SHAPE = """
  const Qnn_TensorV1_t& first = op->v1.inputTensors[0].v1;
  for (uint32_t axis = 0; axis < first.rank; ++axis) {
    op->v1.outputTensors[0].v1.dimensions[axis] = first.dimensions[axis];
  }
  return QNN_SUCCESS;
"""

KERNELS = """
import numpy as np

from xdlc.udo import kernel


@kernel("TwoOps", "Blend")
def run_Blend(inputs, params, outputs):
    first, *others = inputs
    mask, rest = (others[0], others[1:]) if others else (None, [])
    join = {"SUM": np.sum, "MAX": np.max}[params["mode"]]
    found = join([first, *rest], axis=0)
    found = found if mask is None else found * mask
    found = found * np.float32(params["coeff"]) + ("label" in params)
    return found.astype(np.float32)


@kernel("TwoOps", "Affine")
def run_Affine(inputs, params, outputs):
    x, weight = inputs
    table = np.array(params["table"], np.float32)
    last = table.reshape(-1)[-1] + table.shape[0]
    return (x * weight + params["bias"] + params.get("shift", 0) + last).astype(np.float32)
"""


def write_config(folder: Path) -> Path:
    """Write the configuration into a folder and return its path."""
    path = folder / "two.xml"
    path.write_text(CONFIG)
    return path


def generated(folder: Path) -> Path:
    """Generate the package below a folder, with nothing filled, and return its own."""
    (made,) = generate_files([write_config(folder)], folder / "out")
    return made.outcome.folder


def _fill(path: Path, function: str, scratch: str = "") -> None:
    text = path.read_text()
    begin, end = text.index("\n", text.index("// >>> FILL")), text.index("// <<< FILL")
    text = text[:begin] + function + text[end:]
    if scratch:
        start = text.index("std::size_t scratch_bytes(")
        text = text[:start] + scratch.lstrip() + text[text.index("\n", start) + 1 :]
    path.write_text(text)


def fill(package: Path) -> None:
    """Fill what a user has to fill."""
    ops = package / "jni/src/CPU/src/ops"
    _fill(ops / "Blend.cpp", BLEND, BLEND_SCRATCH)
    _fill(ops / "Affine.cpp", AFFINE)
    _fill(package / "jni/src/reg/shapes/Blend.cpp", SHAPE)
    (package / f"python/{PACKAGE}/kernels.py").write_text(KERNELS)
