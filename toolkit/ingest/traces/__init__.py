"""Torch profiler traces: a stream of events, reduced to columns."""
