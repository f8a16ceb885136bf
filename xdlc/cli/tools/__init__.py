"""Tools: each module is a sub-command of ``xdlc`` with a command ``main``."""
