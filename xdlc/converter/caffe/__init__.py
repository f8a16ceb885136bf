"""Importer of Caffe nets."""
