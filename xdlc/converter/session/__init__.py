"""Import session: context, diagnostics, boundary and layouts of one conversion."""
