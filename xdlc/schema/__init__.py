"""Schemas: flatbuffers of the container, OpDefs, and what is generated from them."""
