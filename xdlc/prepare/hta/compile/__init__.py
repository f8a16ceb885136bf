"""From the ops of a section to an integer-only plan (``xdlc.runtime.hta``)."""

from xdlc.prepare.hta.compile.compile import compile_section

__all__ = ["compile_section"]
