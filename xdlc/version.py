"""The version of the package, which is in the history of files it writes."""

VERSION = "0.1.0"
DOCUMENTATION = "https://xdlc.readthedocs.io/en/stable"
