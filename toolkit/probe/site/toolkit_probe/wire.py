"""What the probe and the profiler say to each other: names, paths, versions. Standard library only.

A rank listens on a Unix stream socket: one JSON object a line each way, a request has one answer.

    {"do": "status"}
    {"do": "start", "folder": PATH, "cycles": N|null, "seconds": S|null,
     "steps_every": 20, "max_cycles": 200000, "not_before_ns": T|null}
    {"do": "stop"}

Every answer has "ok" and "error" (one sentence or null). `status` adds what `control.py` lists; `start`
adds "spans_file"; `stop` adds "recorded", "dropped", "unread_graphs", "unread", "spans_file". `unread` counts
the phases of sampled cycles that have no time from inside their graph: {"verify: why": n}. A recording ends
with the connection that started it.

`in_graph` is `ok` and what restricts it, `no graphs yet`, `off: why, what to do` or `unavailable: why`. It is
off where graphs cannot be copied and the environment does not say steps itself.
"""

from __future__ import annotations

import os.path

WIRE = 1
SPANS_SCHEMA = "toolkit.spans/1"
CLOCK = "host monotonic"

MODE_VARIABLE = "TOOLKIT_PROBE"
STARTUP_VARIABLE = "TOOLKIT_PROBE_STARTUP"
FOLDER_VARIABLE = "TOOLKIT_PROBE_DIR"

MODES = ("off", "stages", "steps")  # nothing; event pairs around calls; and events inside graphs
DEFAULT_MODE = "steps"

STEPS_EVERY = 20  # cycles between two whose graphs are read
MAX_CYCLES = 200_000  # in one file
LONGEST_LINE = 65_536  # bytes of a request


def socket_folder(temporary: str, uid: int) -> str:
    """Return the folder of the sockets of one user's ranks."""
    return os.path.join(temporary, f"toolkit-probe-{uid}")


def socket_name(pid: int) -> str:
    """Return the file name of a rank's socket."""
    return f"{pid}.sock"


def spans_name(tp_rank: int) -> str:
    """Return the file name of a rank's spans."""
    return f"spans-TP-{tp_rank}.jsonl"
