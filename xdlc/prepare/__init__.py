"""Compiling for the target: HTP caches and HTA partitions."""
