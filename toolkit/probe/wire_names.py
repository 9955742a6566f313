"""The names of the wire, read from the probe's own file: both ends speak from one text.

The probe's package lies in `site/`, outside this package, because a server has only that folder.
"""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType

from toolkit.probe.where import site_folder


def _load() -> ModuleType:
    path = site_folder() / "toolkit_probe" / "wire.py"
    spec = spec_from_file_location("toolkit.probe.wire", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is missing; install the toolkit again")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_wire = _load()

WIRE: int = _wire.WIRE
SPANS_SCHEMA: str = _wire.SPANS_SCHEMA
CLOCK: str = _wire.CLOCK
MODE_VARIABLE: str = _wire.MODE_VARIABLE
STARTUP_VARIABLE: str = _wire.STARTUP_VARIABLE
FOLDER_VARIABLE: str = _wire.FOLDER_VARIABLE
MODES: tuple[str, ...] = _wire.MODES
DEFAULT_MODE: str = _wire.DEFAULT_MODE
STEPS_EVERY: int = _wire.STEPS_EVERY
MAX_CYCLES: int = _wire.MAX_CYCLES
LONGEST_LINE: int = _wire.LONGEST_LINE


def socket_folder(temporary: str, uid: int) -> str:
    """Return the folder of the sockets of one user's ranks, given the server's temporary folder."""
    return str(_wire.socket_folder(temporary, uid))


def socket_name(pid: int) -> str:
    """Return the file name of a rank's socket; `pid` is the rank's own, inside its namespace."""
    return str(_wire.socket_name(pid))


def spans_name(tp_rank: int) -> str:
    """Return the file name of a rank's spans inside the folder that `start` names."""
    return str(_wire.spans_name(tp_rank))
