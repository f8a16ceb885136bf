"""Equivalent forms of ops that HTP computes wrongly or not at all, by family."""
