"""Handlers of Caffe layers."""
