"""Handlers of TFLite operators."""
