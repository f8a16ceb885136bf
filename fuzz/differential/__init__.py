"""Targets with an oracle: networks and edge values by xdlc and another engine."""
