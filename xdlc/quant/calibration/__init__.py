"""Calibration: statistics of activations over samples, in one pass.

Exact to merge, so that samples can be split over processes.
"""
