"""Mixed precision found by trial: groups of ops, what their widths cost, and the search."""
