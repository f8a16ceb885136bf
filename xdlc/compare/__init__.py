"""Comparison of engines: figures, and the first op that differs."""
