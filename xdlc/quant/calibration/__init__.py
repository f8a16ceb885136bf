"""Calibration: statistics of activations over samples, collected in one streaming pass.

Exact to merge, so that samples can be split over processes.
"""
