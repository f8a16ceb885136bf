"""Definitions of operations, and the check of graphs against them."""
