"""Inputs and outputs as callers have them: layouts, types, colours, scales and sizes, in front of a graph."""
