"""UDO packages, generated from their definitions."""

from xdlc.udo.generator.generate import Generated, generate, generate_files

__all__ = ["Generated", "generate", "generate_files"]
