"""Child processes for code that may crash, hang or use up the memory."""
