"""Wider forms where few bits lose values, of activations and of weights."""
