"""What a user or a client asked for that cannot be."""

from __future__ import annotations


class SettingError(ValueError):
    """One sentence: the value, why it cannot be, what to do."""
