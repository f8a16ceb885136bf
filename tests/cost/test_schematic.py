"""Reader of the compiler's op trace."""

from collections import Counter
from pathlib import Path

import pytest

from tests.support.htp_models import cnn, needs_htp
from xdlc.cost.schematic import Kernel, Traffic, read_schematic
from xdlc.errors import BackendError
from xdlc.runtime.htp import CompileOptions, traced_compilation

ROW = (
    '{{"opid" : 0x{:016x} , "dram_read": {} , "dram_write": {} , "vtcm_read": {} , "vtcm_write": {}, '
    '"is_dma": {}}},\n'
)
ROWS = ROW.format(0x411100000002, 12288, 0, 0, 12288, 1) + ROW.format(0x41BE0000001A, 0, 0, 64, 32, 0)
TRACE = f"""graph_before_optimization = {{ # :::BEGIN:graph_before_optimization:::
}}
bandwidth_information = [
{ROWS}]
graph_res_flags0 = {{ # :::BEGIN:graph_flag0:::
\t'graph': {{
\t\t0x10: {{'flags' : ()}},
\t\t0x411100000002: {{
\t\t\t'flags': ('uses_dma',),
\t\t}},
\t\t0x41be0000001a: {{
\t\t\t'flags': ('uses_hmx',),
\t\t}},
\t}}
}}
qnn_name_translations = {{
0x000000000000001a: '1',
}}
opdesc_map ={{
  # @[0]:
  '#1': opdesc( 0x411100000002, "q::*InputSlice", ptr=0x5564a7476d50, runlist_pos = 0,
      flags=('any_tcm',), n_out=1,
  ),
  '#16': opdesc( 0x41be0000001a, "q::ConvLayer.fp16.s2.tcm", ptr=0x5564a70910e0, runlist_pos = 27,
  ),
}} # end of opdesc
tcm_block_info = {{
    35: (0xaa800, 0x3000),
    36: (0x6a800, 0x4800),
}} # end of block_info
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "graph0_schematic.bin"
    path.write_text(text, encoding="latin-1")
    return path


def test_kernels_have_op_engine_and_traffic(tmp_path: Path) -> None:
    schematic = read_schematic(written(tmp_path, TRACE), "v2.51")
    assert schematic.kernels == (
        Kernel(None, "*InputSlice", "DMA", Traffic(12288, 0, 0, 12288)),
        Kernel(1, "ConvLayer.fp16.s2.tcm", "HMX", Traffic(0, 0, 64, 32)),
    )
    assert schematic.vtcm_peak == 0xAA800 + 0x3000


@pytest.mark.parametrize("length", range(120, TRACE.rindex("}"), 97))
def test_a_cut_trace_is_an_error_that_names_the_line(tmp_path: Path, length: int) -> None:
    with pytest.raises(BackendError) as raised:
        read_schematic(written(tmp_path, TRACE[:length]), "v2.51")
    assert "v2.51: line " in str(raised.value.where)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"dram_read": 12288', '"dram_read": -1'),
        ('"vtcm_read"', '"cache_read"'),
        ("'uses_hmx',", "uses_hmx"),
        ("0x000000000000001a: '1'", "0x000000000000001a: 'conv'"),
        ("opdesc( 0x411100000002", "opdesc( 0x411100000003"),
        ("opdesc( 0x411100000002", "op( 0x411100000002"),
        ("(0xaa800, 0x3000)", "(0xaa800)"),
        ("qnn_name_translations", "names"),
    ],
)
def test_another_format_is_an_error(tmp_path: Path, old: str, new: str) -> None:
    with pytest.raises(BackendError):
        read_schematic(written(tmp_path, TRACE.replace(old, new)), "v2.51")


@needs_htp
def test_the_trace_of_a_network_is_read() -> None:
    model = cnn(quantized=True)
    with traced_compilation(model, "sm8650", CompileOptions(vtcm_mb=8, optimization_level=2)) as traced:
        (path,) = traced.files.values()
        schematic = read_schematic(path, traced.build)
        text = path.read_text("latin-1")
        (ops,) = traced.ops.values()
    assert text.count('"opid"') == len(schematic.kernels)
    assert Counter(kernel.engine for kernel in schematic.kernels)["HMX"]
    assert {kernel.op for kernel in schematic.kernels} <= {None, *range(len(ops))}
    assert not path.exists()
