"""cost-model.json on disk."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from toolkit.errors import BadInputError, UsageError
from toolkit.schema.codec import cost_model_from_json, to_json
from toolkit.schema.cost import CostModel


def read_cost_model(path: Path) -> CostModel:
    """Return the model in a file; BadInputError if it is none."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise BadInputError(
            f"{path} does not exist; write it with `toolkit model fit PATH...` or name another with --model"
        ) from None
    except OSError as error:
        raise BadInputError(f"{path} cannot be read ({error.strerror}); give a cost-model.json") from None
    return cost_model_from_json(text, str(path))


def write_cost_model(path: Path, model: CostModel, *, overwrite: bool) -> None:
    """Write a model; see `write_new_text` for errors."""
    write_new_text(path, to_json(model) + "\n", overwrite=overwrite)


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Raise UsageError if writing `path` would lose what is there."""
    if path.exists() and not overwrite:
        raise UsageError(f"{path} exists and is kept; give --overwrite or another path")


def write_new_text(path: Path, text: str, *, overwrite: bool) -> None:
    """Write a whole file or nothing; an existing one is kept (UsageError) unless `overwrite`."""
    refuse_existing(path, overwrite=overwrite)
    partial: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=f".{path.name}.", delete=False, encoding="utf-8"
        ) as out:
            partial = out.name
            out.write(text)
        os.chmod(partial, 0o644)  # a temporary file is private, a result is not
        os.replace(partial, path)
    except OSError as error:
        if partial is not None and os.path.exists(partial):
            os.unlink(partial)
        raise BadInputError(f"{path} cannot be written ({error.strerror}); name another place") from None
