"""cost-model.json on disk."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from toolkit.errors import BadInputError, UsageError
from toolkit.schema.codec import cost_model_from_json, to_json
from toolkit.schema.cost import CostModel, GroupModel


def read_cost_model(path: Path) -> CostModel:
    """Return the model in a file; BadInputError if it is none or damaged."""
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise BadInputError(
            f"{path} does not exist; write it with `toolkit model fit PATH...` or name another file"
        ) from None
    except OSError as error:
        raise BadInputError(f"{path} cannot be read ({error.strerror}); give a cost-model.json") from None
    model = cost_model_from_json(text, str(path))
    for group in model.groups:
        if not _fits_together(group):
            raise BadInputError(
                f"{path} is damaged (the arrays of {group.engine}, TP{group.tp_size} do not fit together): "
                "write it again with `toolkit model fit`"
            )
    return model


def _fits_together(group: GroupModel) -> bool:
    """Return whether a group's arrays have a number for each of its columns, and its cells are possible."""
    width = len(group.columns)
    rows = (group.norms, group.solution, *group.null_space, *group.vertices, *group.draws)
    return (
        all(len(row) == width for row in rows)
        and all(norm > 0 for norm in group.norms)
        and len(group.draws) > 0
        and all(cell.padded_batch_size > 0 and cell.num_draft_tokens > 0 for cell in group.cells)
        and all(cell.cycle_us is None or cell.cycle_us > 0 for cell in group.cells)
    )


def write_cost_model(path: Path, model: CostModel, *, overwrite: bool) -> None:
    """Write a model; see `write_new_text` for errors."""
    write_new_text(path, to_json(model) + "\n", overwrite=overwrite)


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Raise UsageError if writing `path` would lose what is there."""
    if path.exists() and not overwrite:
        raise UsageError(f"{path} exists and is kept; give --overwrite or another path")


def write_new_text(path: Path, text: str, *, overwrite: bool) -> None:
    """Write a whole file or nothing; an existing one is kept (UsageError) unless `overwrite`."""
    write_new_bytes(path, text.encode("utf-8"), overwrite=overwrite)


def write_new_bytes(path: Path, content: bytes, *, overwrite: bool) -> None:
    """Write a whole file or nothing; an existing one is kept (UsageError) unless `overwrite`."""
    refuse_existing(path, overwrite=overwrite)
    partial: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as out:
            partial = out.name
            out.write(content)
        os.chmod(partial, 0o644)  # a temporary file is private, a result is not
        os.replace(partial, path)
    except OSError as error:
        if partial is not None and os.path.exists(partial):
            os.unlink(partial)
        raise BadInputError(f"{path} cannot be written ({error.strerror}); name another place") from None
