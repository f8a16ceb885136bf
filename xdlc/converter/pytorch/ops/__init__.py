"""Handlers of ATen operators."""
