"""User-defined operations: configurations, generated packages, and plugins that bring an op as one object."""
