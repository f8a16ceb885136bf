"""Targets that have an oracle: networks, and values at the edge, by xdlc and by another engine."""
