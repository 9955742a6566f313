"""Where the probe's folder for a server's PYTHONPATH lies."""

from __future__ import annotations

from pathlib import Path


def site_folder() -> Path:
    """Return the folder to put on a server's PYTHONPATH; it needs the standard library and torch only."""
    return Path(__file__).resolve().parent / "site"
