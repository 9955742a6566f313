"""Call back when a module has been imported, without importing it: the engine decides what it loads."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from .complaints import complain

Callback = Callable[[ModuleType], None]


class _Loader(importlib.abc.Loader):
    """The module's own loader; what it makes is shown to the callback, then the loader is put back."""

    def __init__(self, inner: Any, callback: Callback) -> None:
        self._inner = inner
        self._callback = callback

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._inner.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        module.__loader__ = self._inner
        self._inner.exec_module(module)
        try:
            self._callback(module)
        except Exception as error:
            complain(f"hooking {module.__name__}", error)


class PostImport(importlib.abc.MetaPathFinder):
    """A finder that finds nothing by itself: it asks the others and wraps the loader of a wanted module."""

    def __init__(self) -> None:
        self._wanted: dict[str, Callback] = {}
        self._asking: set[str] = set()

    def expect(self, name: str, callback: Callback) -> None:
        """Call `callback` when `name` has been imported. Once."""
        self._wanted[name] = callback
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def forget(self) -> None:
        """Expect nothing more, and leave sys.meta_path as it was."""
        self._wanted.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec that the next finders give, its loader wrapped; None for any other module."""
        if fullname not in self._wanted or fullname in self._asking:
            return None
        self._asking.add(fullname)
        try:
            spec = _next_spec(self, fullname, path, target)
        finally:
            self._asking.discard(fullname)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        spec.loader = _Loader(spec.loader, self._wanted.pop(fullname))
        return spec


def _next_spec(
    own: PostImport, fullname: str, path: Sequence[str] | None, target: ModuleType | None
) -> importlib.machinery.ModuleSpec | None:
    for finder in list(sys.meta_path):
        find = getattr(finder, "find_spec", None)
        if finder is own or find is None:
            continue
        spec: importlib.machinery.ModuleSpec | None = find(fullname, path, target)
        if spec is not None:
            return spec
    return None
