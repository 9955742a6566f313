"""Make the session of this process and wrap the engine's functions."""

from __future__ import annotations

import atexit
import functools
import os
import sys
from collections.abc import Callable
from importlib import import_module, metadata
from typing import Any

from .complaints import complain
from .guard import Hook, Note, after_only, awake_only, marking_only
from .session import Session
from .targets import TORCH, Target, targets_of

sessions: list[Session] = []  # of this process: one engine, or a test's several


def load(engine: str, mode: str, startup: bool = False, add_nodes: bool = False) -> bool:
    """Hook the engine in this process; return False when the process is none that runs model work.

    `add_nodes`: where graphs cannot be copied, the engine's own ones may get event nodes.
    """
    adapter = import_module(f".{engine}", __package__)
    if engine == "sglang" and not startup and not adapter.scheduler_process():
        return False
    session = Session(engine, _version(engine), mode, add_nodes)
    sessions.append(session)
    install(session, adapter)
    os.register_at_fork(after_in_child=session.forked)
    atexit.register(session.close)
    return True


def install(session: Session, adapter: Any) -> None:
    """Wrap every target of the version, and the capture of graphs."""
    session.in_graph.wanted = adapter.graph_wanted
    hooks = adapter.hooks(session.recorder, session.acceptance)
    notes = adapter.notes(session.recorder)
    wrap = functools.partial(_wrap, session, adapter, hooks, notes)
    session.patches.install((*targets_of(session.engine, session.version), *TORCH), wrap)


def _wrap(
    session: Session,
    adapter: Any,
    hooks: dict[str, Hook],
    notes: dict[str, Note],
    target: Target,
    original: Callable[..., Any],
) -> Callable[..., Any] | None:
    role, faults, recorder = target.role, session.faults, session.recorder
    if role == "rank":
        return _telling(session, adapter, original)
    if role == "graph_made":
        return functools.wraps(original)(session.in_graph.wrap_made(original))
    if role == "capture":
        return functools.wraps(original)(session.in_graph.wrap_begin(original))
    if role == "capture_end":
        return functools.wraps(original)(session.in_graph.wrap_end(original))
    if role == "generators":
        return functools.wraps(original)(session.in_graph.wrap_generator(original))
    if role == "graph_scope":
        return functools.wraps(original)(adapter.Scope.around(original))
    if role == "draft_forward":
        return marking_only(original, role, adapter.is_draft, recorder, faults)
    if role == "collective":
        return marking_only(original, role, adapter.exchanges, recorder, faults)
    if role == "forward_context":
        return functools.wraps(original)(adapter.marked_context(original, recorder))
    if role in notes:
        return after_only(original, role, notes[role], recorder, faults)
    if role not in hooks:
        return None
    gate = session.acceptance if role == "acceptance" else recorder
    return awake_only(original, role, hooks[role], gate, faults)


def _telling(session: Session, adapter: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    """Return the constructor of a rank that opens the probe's socket first."""

    @functools.wraps(original)
    def construct(*args: Any, **kwargs: Any) -> Any:
        try:
            session.rank_started(adapter.rank_of(original, args, kwargs))
        except Exception as error:
            complain("opening the socket", error)
        return original(*args, **kwargs)

    return construct


def _version(engine: str) -> str:
    if engine == "reference":
        return str(getattr(sys.modules.get("toolkit.reference"), "VERSION", ""))
    try:
        return metadata.version(engine)
    except metadata.PackageNotFoundError:
        return ""
