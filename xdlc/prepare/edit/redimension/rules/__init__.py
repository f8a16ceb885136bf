"""Rules for the shapes of ops' results, one family a file."""
