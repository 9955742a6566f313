"""Frozen records that cross the borders between the parts; no logic, no files."""
