"""Stands in for the engine in tests: its processes, its endpoint and a probe, without a model."""
