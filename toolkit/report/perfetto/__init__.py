"""Traces of all ranks as one file for the Perfetto viewer (Chrome JSON)."""
