"""Operators on sequences and optionals, which are taken apart on import.

A sequence is the list of its tensors, an optional is empty or not; an operator that reads an element gets the
tensor itself, so that nothing of either is in the graph.  Lengths and positions must be known for that
while importing.
"""
