"""Schemas of flatbuffers and OpDefs, and the modules generated from them."""
