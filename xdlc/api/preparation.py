"""Compiling a model for accelerators: HTP and HTA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from xdlc.api.models import executable, preparable
from xdlc.api.options import PathLike, check_lists, check_options, keywords
from xdlc.ir import Model

if TYPE_CHECKING:
    from xdlc.prepare.hta import PreparedHta
    from xdlc.prepare.htp import Prepared


def prepare(model: Model | PathLike, socs: Sequence[str] = (), **options: Any) -> Model:
    """Return a copy of the model with one compiled HTP cache for each SoC.

    Args:
        model: The model, or the path of a DLC.
        socs: SoC names such as ``sm8650``; none if ``htp_archs`` are given.
        **options: Flags of ``xdlc-graph-prepare`` under their names: ``vtcm_override=4``,
            ``set_output_tensors=["a"]``...

    Raises:
        UsageError: If a SoC, an option, or a name in an option is not known.
        BackendError: If the vendor's package is missing, or its compiler refuses the model.
    """
    from xdlc.prepare.htp import prepare as prepare_htp

    return prepare_htp(_to_prepare(model, socs, options), socs, **options)


def prepare_all(model: Model | PathLike, socs: Sequence[str] = (), **options: Any) -> Prepared:
    """Do what ``prepare`` does, but return what failed beside what worked.

    Raises:
        UsageError: If a SoC, an option, or a name in an option is not known.
        BackendError: If the vendor's package is missing.
    """
    from xdlc.prepare.htp import prepare_all as prepare_all_htp

    return prepare_all_htp(_to_prepare(model, socs, options), socs, **options)


def _to_prepare(model: Model | PathLike, socs: Sequence[str], options: dict[str, Any]) -> Model | PathLike:
    """Take the options that change the model out of ``options`` and return the model so changed."""
    from xdlc.prepare.edit import edit
    from xdlc.prepare.htp import prepare_all as prepare_all_htp

    changes = keywords(edit)
    check_options("prepare", prepare_all_htp, options, more=changes)
    check_lists(socs=socs)
    given = {name: options.pop(name) for name in changes if name in options}
    given = {name: value for name, value in given.items() if value}
    return edit(executable(model), **given) if given else preparable(model)


def prepare_hta(model: Model | PathLike, partitions: str | None = None, **options: Any) -> PreparedHta:
    """Return a quantized model with sections for the Hexagon Tensor Accelerator, and what it does not take.

    Sections that were there before are replaced; what has been quantized stays so.

    Args:
        model: The model, or the path of a DLC.
        partitions: Ranges of layer ids for the accelerator, like ``0-11,177-215``; default: chosen.
        **options: ``soc="sm8250"`` to be told if a SoC has no HTA; ``tell`` and ``progress``, see
            :func:`xdlc.prepare.hta.prepare`.

    Raises:
        UsageError: If the ranges or an option are not valid.
        ConstraintError: If the model is not quantized.
    """
    from xdlc.prepare.hta import prepare as prepare_sections

    check_options("prepare_hta", prepare_sections, options)
    return prepare_sections(executable(model), partitions, **options)
