"""Handlers of the layers and operations of Keras."""
