"""Mixed precision found by trial: groups of ops, the cost of their widths, and the search."""
