"""What a caller can choose about compiling."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """Options of the HTP compiler; None leaves a choice to the library.

    Attributes:
        vtcm_mb: Vector tightly coupled memory to plan for, in MB; 0 is all that the SoC has.
        optimization_level: 1 to 3; higher takes longer and gives a faster graph.
        num_hvx_threads: Threads of the vector unit.
        dlbc: Whether to compress feature maps in memory (deep-learning bandwidth compression).
        share_weights: Whether to keep the weights out of the cache, in a record that caches for other SoCs
            can have in common.
        arch_only: Whether to compile for any SoC of the architecture instead of for the SoC.
    """

    vtcm_mb: int | None = None
    optimization_level: int | None = None
    num_hvx_threads: int | None = None
    dlbc: bool = False
    share_weights: bool = False
    arch_only: bool = False
