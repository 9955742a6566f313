"""Plugins by entry point, as the serving engines load theirs: a failing one is logged, never raised."""

from __future__ import annotations

import traceback
from importlib.metadata import entry_points

from toolkit.reference.log_lines import write_line

GROUP = "toolkit.reference.plugins"


def load_plugins(tp_rank: int) -> list[str]:
    """Call every plugin of the group, before any of the engine's classes is used; return who loaded."""
    loaded = []
    for point in entry_points(group=GROUP):
        try:
            point.load()()
        except Exception:
            write_line(f"plugin {point.name} failed: {traceback.format_exc()}", tp_rank)
        else:
            loaded.append(point.name)
            write_line(f"plugin {point.name} loaded", tp_rank)
    return loaded
