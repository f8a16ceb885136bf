"""Pictures of results of the tools, one a module, from plain values."""
