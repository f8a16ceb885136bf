"""The version of the package, which also goes into the history of the files it writes."""

VERSION = "0.1.0"
