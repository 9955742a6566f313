"""Wrap an engine's functions by dotted name, now or when their module is imported, and undo it.

Plain wrapping is the one mechanism for every engine: SGLang's own hook registry exists from 0.5.11 on only,
imports each target when it applies, and could do nothing that this does not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from .complaints import complain
from .post_import import PostImport
from .targets import INHERITED, Target

Wrap = Callable[[Target, Callable[..., Any]], "Callable[..., Any] | None"]

MARK = "__toolkit_probe__"
_NOT_IMPORTED = " (its module is not imported)"


class Patches:
    """The names that were replaced in this process. `states` says for each target how it went."""

    def __init__(self) -> None:
        self.states: dict[Target, str] = {}
        self._undo: list[tuple[Any, str, Any, Any]] = []
        self._imports = PostImport()
        self._waiting: dict[str, list[Target]] = {}
        self._wrap: Wrap | None = None

    def install(self, targets: Iterable[Target], wrap: Wrap) -> None:
        """Wrap each target: at once where its module is there, else right after its import."""
        self._wrap = wrap
        for target in targets:
            self.states[target] = f"missing: {target.dotted}{_NOT_IMPORTED}"
            self._waiting.setdefault(target.module, []).append(target)
        for name in list(self._waiting):
            if not self._apply_imported(name):
                self._imports.expect(name, self._arrived)

    def retry(self) -> None:
        """Wrap what was half imported when `install` looked."""
        for name in list(self._waiting):
            self._apply_imported(name)

    def undo(self) -> None:
        """Put back every name that is still ours."""
        self._imports.forget()
        for owner, name, original, ours in reversed(self._undo):
            if vars(owner).get(name) is not ours:
                continue
            if original is None:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
        self._undo.clear()
        self._waiting.clear()

    def _apply_imported(self, name: str) -> bool:
        module = sys.modules.get(name)
        if module is None or getattr(module.__spec__, "_initializing", False):
            return False
        self._arrived(module)
        return True

    def _arrived(self, module: ModuleType) -> None:
        for target in self._waiting.pop(module.__name__, []):
            try:
                self.states[target] = self._apply(module, target)
            except Exception as error:
                self.states[target] = f"failed: {error}"
                complain(f"hooking {target.dotted}", error)

    def _apply(self, module: ModuleType, target: Target) -> str:
        """Wrap one target. A name that is inherited is refused: undoing it would leave a copy."""
        *path, name = target.name.split(".")
        owner: Any = module
        for part in path:
            owner = getattr(owner, part, None)
        own = None if owner is None else vars(owner).get(name)
        original = getattr(owner, name, None) if target.role in INHERITED else own
        if original is None:
            return f"missing: {target.dotted}"
        if not callable(original) or isinstance(original, type):
            return f"failed: {target.dotted} is no function"
        if hasattr(original, MARK):
            return "ok"
        if self._wrap is None:
            return "failed: nothing to wrap it with"
        ours = self._wrap(target, original)
        if ours is None:
            return f"failed: no hook for {target.role}"
        setattr(ours, MARK, target.dotted)
        setattr(owner, name, ours)
        self._undo.append((owner, name, own, ours))
        return "ok"
