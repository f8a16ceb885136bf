"""Forms of ops that HTP computes wrongly or does not support, by family."""
