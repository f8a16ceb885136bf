"""Batches: the recipe, the work for one DLC, the journal."""
