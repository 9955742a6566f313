"""Forecasts to a recommendation, and the whole answer to a question."""
