"""Where results may be written."""

from __future__ import annotations

from pathlib import Path

from toolkit.errors import BadInputError


def refuse_missing_folder(path: Path) -> None:
    """Raise BadInputError if the folder of a result does not exist: a slip in its name makes no folder."""
    if not path.parent.is_dir():
        raise BadInputError(f"{path} cannot be written: there is no folder {path.parent}; make it first")
