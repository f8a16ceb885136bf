"""Options of the HTP compiler, and their configuration structs."""

from __future__ import annotations

import struct
from ctypes import addressof, c_uint32, memmove
from dataclasses import dataclass

from xdlc.runtime.htp import structs as st

SHARED_CACHE = "cache.dlc"
"""File of a compile job that has the cache and its shared weights."""
TRACED = "graph{}"
"""Name by number that a graph has while its op trace is written; the library names the file after it."""


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Options of the HTP compiler; None leaves a choice to the library.

    Attributes:
        vtcm_mb: Vector tightly coupled memory to plan for, in MB; 0 is all that the SoC has.
        optimization_level: 1 to 3; higher compiles longer, to a faster graph.
        num_hvx_threads: Threads of the vector unit.
        dlbc: Whether to compress feature maps in memory (deep-learning bandwidth compression).
        share_weights: Whether to keep the weights out of the cache, in a record that caches for other SoCs
            can have in common.
        share_graph_weights: Whether to keep weights of several graphs once in the cache.
        arch_only: Whether to compile for any SoC of the architecture instead of for the SoC.
    """

    vtcm_mb: int | None = None
    optimization_level: int | None = None
    num_hvx_threads: int | None = None
    dlbc: bool = False
    share_weights: bool = False
    share_graph_weights: bool = False
    arch_only: bool = False


# QnnHtpDevice_CustomConfig_t and QnnHtpGraph_CustomConfig_t
_DEVICE_SOC, _DEVICE_ARCH = 0, 1
_GRAPH_OPTIMIZATION, _GRAPH_VTCM_MB, _GRAPH_HVX_THREADS = 1, 3, 6
_OPTIMIZATION_LEVEL, _OPTIMIZATION_DLBC = 3, 4
# QnnHtpContext_CustomConfig_t; the second is what onnxruntime-qnn 2.7.0 passes for a context of several SoCs.
_CONTEXT_SHARED_BY_GRAPHS, _CONTEXT_SHARED_BY_SOCS = 1, 18


def device_option(soc_id: int, arch: int | None, offset: int) -> st.HtpConfig:
    """Return the option of a device for a SoC, or for any SoC of an architecture.

    Args:
        offset: Offset of the value in the struct, by release of the library.
    """
    config = st.HtpConfig(option=_DEVICE_SOC if arch is None else _DEVICE_ARCH)
    value = [soc_id] if arch is None else [0, arch]  # the number of the device goes before the architecture
    memmove(addressof(config) + offset, (c_uint32 * len(value))(*value), 4 * len(value))
    return config


def context_options(options: CompileOptions) -> list[st.HtpConfig]:
    """Return the options of a context."""
    by_number = {
        _CONTEXT_SHARED_BY_GRAPHS: options.share_graph_weights,
        _CONTEXT_SHARED_BY_SOCS: options.share_weights,
    }
    configs = [st.HtpConfig(option=number) for number, is_on in by_number.items() if is_on]
    for config in configs:
        config.words[0] = 1
    return configs


def graph_options(options: CompileOptions) -> list[st.HtpConfig]:
    """Return the options of a graph, without options at the library's default."""
    chosen = []

    def option(number: int, *words: int) -> None:
        config = st.HtpConfig(option=number)
        config.words[: len(words)] = words
        chosen.append(config)

    if options.vtcm_mb is not None:
        option(_GRAPH_VTCM_MB, options.vtcm_mb)
    if options.optimization_level is not None:
        option(_GRAPH_OPTIMIZATION, _OPTIMIZATION_LEVEL, _float_word(options.optimization_level))
    if options.dlbc:
        option(_GRAPH_OPTIMIZATION, _OPTIMIZATION_DLBC, _float_word(1.0))
    if options.num_hvx_threads is not None:
        option(_GRAPH_HVX_THREADS, options.num_hvx_threads)
    return chosen


def _float_word(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])
