"""Handlers of TensorFlow's operators."""
