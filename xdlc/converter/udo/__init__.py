"""UDO conversion: nodes of any source framework as ops of their definitions."""
