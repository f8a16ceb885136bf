"""Importer of Keras files: ``.keras`` archives, and HDF5 with an architecture."""
