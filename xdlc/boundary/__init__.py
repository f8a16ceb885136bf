"""Inputs and outputs as callers have them, in front of a graph."""
