"""Faults of the disk in every tool that writes: at each call that changes it, by errno, short or killed."""
