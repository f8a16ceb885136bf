"""Wider forms where few bits lose values: 16-bit activations, 16-bit weights as two of 8 bits."""
