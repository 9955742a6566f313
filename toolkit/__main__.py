"""`python -m toolkit`: the same as the `toolkit` script."""

from __future__ import annotations

from toolkit.cli import main_entry

if __name__ == "__main__":
    main_entry()
