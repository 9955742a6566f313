"""Schema-headed JSON: read with errors in one sentence, written atomically."""

from __future__ import annotations

import gzip
import os
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from toolkit.errors import BadInputError
from toolkit.ingest.text_files import decoded, read_bytes

T = TypeVar("T")


def require_schema(found: object, expected: str, source: str) -> None:
    """Raise BadInputError unless `found` is the schema this version reads, such as toolkit.run/1."""
    if found == expected:
        return
    name, _, version = expected.partition("/")
    if isinstance(found, str) and found.startswith(f"{name}/"):
        later = found.partition("/")[2]
        if later.isdecimal() and later.isascii() and len(later) < 9 and int(later) > int(version):
            raise BadInputError(
                f"{source} has schema {found}, written by a newer toolkit than this one, "
                f"which reads {expected}; upgrade the toolkit"
            )
    said = "has no toolkit schema" if found is None else f"has schema {_shown(found)}"
    raise BadInputError(
        f"{source} {said} where {expected} is needed; give a file of that kind or leave it out"
    )


def read_json_object(path: Path, schema: str) -> dict[str, Any]:
    """Return the JSON object of a file whose `schema` is the one expected, that key taken out."""
    raw, damage = read_bytes(path)
    if not raw.strip():
        raise BadInputError(f"{path} is empty; restore it or leave it out")
    try:
        value = msgspec.json.decode(decoded(raw))
    except (msgspec.DecodeError, RecursionError) as error:
        why = "; ".join((str(error), *damage))
        raise BadInputError(f"{path} is not valid JSON ({why}); restore it or leave it out") from error
    if not isinstance(value, dict):
        raise BadInputError(f"{path} holds {_shown(value)}, not a JSON object; give a {schema} file")
    require_schema(value.pop("schema", None), schema, str(path))
    return value


def record_of(value: dict[str, Any], kind: type[T], path: Path) -> T:
    """Return the record in a JSON object; unknown keys are left out, a wrong type names its key."""
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        reason, _, where = str(error).partition(" - at ")
        key = where.strip("`").removeprefix("$").removeprefix(".") or "the object"
        raise BadInputError(f"{path}: {key}: {reason[:1].lower()}{reason[1:]}; correct that key") from error


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old one or all of the new; gzip when named .gz."""
    if path.suffix == ".gz":
        content = gzip.compress(content, mtime=0)  # no time inside: equal records, equal bytes
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.chmod(name, 0o644)  # mkstemp makes it readable by its owner alone
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def schema_first(record: object, schema: str) -> dict[str, Any]:
    """Return the JSON object of a record with its schema as the first key."""
    return {"schema": schema, **msgspec.to_builtins(record)}


def write_record(path: Path, record: object, schema: str) -> None:
    """Write one record as indented JSON, its schema first."""
    packed = msgspec.json.encode(schema_first(record, schema))
    write_atomically(path, msgspec.json.format(packed, indent=2) + b"\n")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
