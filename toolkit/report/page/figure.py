"""A figure of the page: a drawing, what it shows in words, and its numbers as a table."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """A table; cells are texts as shown, the first of each row heads it."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """`key` is unique on the page; `title` heads the figure, `caption` says how to read it."""

    key: str
    title: str
    caption: str
    drawing: Markup
    numbers: Numbers
