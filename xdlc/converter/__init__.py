"""Importers: one package a framework, all building the same IR."""
