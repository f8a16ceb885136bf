"""Rules for the shapes of op results, one family of ops per file."""
