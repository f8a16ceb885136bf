"""The command-line tools, one a file: they parse, call and print."""
