"""Handlers of Caffe2's operators."""
