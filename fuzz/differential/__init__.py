"""Targets that have an oracle: random valid networks, and values at the edge, by xdlc and by another engine."""
