"""Translations, one family of layers a module.

What attributes mean was worked out from real files (SNPE 1.42 to 1.68) and the networks they were
made of; a number that none of them holds is refused.
"""
