"""Importer of Keras files: ``.keras`` archives and HDF5 files with an architecture."""
