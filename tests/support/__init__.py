"""Models and helpers that tests share."""
