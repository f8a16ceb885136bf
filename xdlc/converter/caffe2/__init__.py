"""Importer of Caffe2 nets."""
