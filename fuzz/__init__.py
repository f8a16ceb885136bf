"""Fuzzing of everything that reads untrusted input; see README.md."""
