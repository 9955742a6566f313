"""Benchmarks: what a whole fit or command achieves. Not part of the tests."""
