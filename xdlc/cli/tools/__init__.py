"""Tools: every module is a sub-command of ``xdlc``, found by its name, with a command ``main``."""
