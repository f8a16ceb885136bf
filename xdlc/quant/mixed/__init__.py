"""Mixed precision by trial: groups of ops, costs of widths, and the search."""
