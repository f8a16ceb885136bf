"""Pages: links, forms, and blocks that are run."""
