"""Comparison of engines: figures of their difference, and the first op that differs."""
