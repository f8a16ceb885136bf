"""Importer of TensorFlow: frozen graphs, SavedModels, checkpoints with a graph."""
