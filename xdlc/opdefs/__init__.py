"""Definitions of operations, and the check that a graph keeps to them."""
