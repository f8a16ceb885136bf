"""Families of cases, a file for each."""
