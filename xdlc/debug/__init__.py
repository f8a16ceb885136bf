"""Debugger: engines of source frameworks, raw results, reports, reproducers."""
