"""Traces read on a Dask cluster: each rank by a worker, which sends back the columns alone."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from toolkit.errors import BadInputError, UsageError
from toolkit.ingest.traces.chrome import Read, read_traces

_CONNECTING_S = 10


def traces_on_dask(address: str, paths: Sequence[Path], *, cache: bool = False) -> list[Read]:
    """Read traces where the workers of a cluster are; they see the same files under the same paths.

    Results are those of `read_traces`. Raises UsageError without Dask or a cluster at that address.
    """
    if not paths:
        return []
    absolute = [path.resolve() for path in paths]
    client = _client(address)
    try:
        futures = [client.submit(_read_one, path, cache, pure=False) for path in absolute]
        read: list[Read] = client.gather(futures)
    finally:
        client.close()
    return [_under(path, there, one) for path, there, one in zip(paths, absolute, read, strict=True)]


def _client(address: str) -> Any:
    """Return a client of the cluster whose scheduler listens at `address`."""
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        raise UsageError("--dask needs Dask; install it with pip install 'toolkit[dask]'") from None
    try:
        return distributed.Client(address, timeout=_CONNECTING_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"no Dask scheduler answers at {address} ({error or type(error).__name__}); "
            "start one with dask scheduler, or read the traces here without --dask"
        ) from None


def _read_one(path: Path, cache: bool) -> Read:
    (found,) = read_traces([path], cache=cache)
    return found


def _under(path: Path, there: Path, read: Read) -> Read:
    """Return what a worker read under the path that was given: errors name that one."""
    return (
        BadInputError(str(read).replace(str(there), str(path))) if isinstance(read, BadInputError) else read
    )
