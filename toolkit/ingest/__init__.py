"""Readers of foreign files: foreign names and units stop here."""
