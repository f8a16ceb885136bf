"""Layers for QNN operations, one family a module: the inverse of ``xdlc.converter.snpe.layers``.

Attributes that only say what SNPE 1 writes, and no translation reads, have the values of real files.
"""
