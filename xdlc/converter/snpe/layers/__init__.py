"""Translations of layers, one family a module.

The meaning of attributes was found from real files (SNPE 1.42 to 1.68) and their source networks; a number
that none of them holds is refused.
"""
