"""Sequences and optionals, which are taken apart while importing, as a DLC holds tensors only.

A sequence is the list of its tensors, an optional is empty or not; an operator that reads an element gets the
tensor itself, so that nothing of either is in the graph.  Lengths and positions must be known for that
while importing.
"""
