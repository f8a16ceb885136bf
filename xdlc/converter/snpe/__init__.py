"""Layers of SNPE 1 (containers of format 3) as QNN operations.

A translation of the graph, not lowerings of its own: the result runs, quantizes, prepares and exports like
any other model, and is saved as a container of format 4.
"""
