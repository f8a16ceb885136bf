"""Faults of the disk in every tool that writes: at each call, by errno or kill."""
