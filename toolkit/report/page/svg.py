"""SVG elements as escaped text, and straight axes: what every figure of the page is drawn with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from markupsafe import Markup, escape

_LEAST_SPAN = 1e-9


def element(name: str, *inside: str | Markup, **attributes: object) -> Markup:
    """Return an element; text inside and values are escaped, `None` leaves an attribute out.

    Underscores in names become hyphens (`text_anchor`); a last one is dropped (`class_`).
    """
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    body = Markup("").join(inside)
    return Markup(f"<{name}{said}>{body}</{name}>")  # all parts were escaped above


def _value(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def text(x: float, y: float, said: str, class_: str = "", anchor: str = "start") -> Markup:
    """Return a line of text."""
    return element("text", said, x=x, y=y, class_=class_ or None, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """Return a straight line."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def box(x: float, y: float, width: float, height: float, class_: str, *inside: Markup) -> Markup:
    """Return a rectangle, never of negative size; `inside` may hold its `<title>`."""
    return element("rect", *inside, x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), class_=class_)


def hover(said: str) -> Markup:
    """Return what a pointer over a shape shows."""
    return element("title", said)


def picture(width: float, height: float, label: str, *inside: Markup) -> Markup:
    """Return a whole figure; `label` is what a screen reader says of it."""
    return element(
        "svg",
        *inside,
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=label,
        width=f"{width:g}",
        height=f"{height:g}",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """A drawing area and the values at its edges."""

    left: float
    right: float
    top: float
    bottom: float
    x_from: float = 0.0
    x_to: float = 1.0
    y_from: float = 0.0
    y_to: float = 1.0

    def x(self, value: float) -> float:
        """Return the place of a value from left to right."""
        span = max(self.x_to - self.x_from, _LEAST_SPAN)
        return self.left + (self.right - self.left) * (value - self.x_from) / span

    def y(self, value: float) -> float:
        """Return the place of a value from bottom to top."""
        span = max(self.y_to - self.y_from, _LEAST_SPAN)
        return self.bottom - (self.bottom - self.top) * (value - self.y_from) / span


def ticks(start: float, end: float, wanted: int = 5) -> tuple[float, ...]:
    """Return round values from `start` to `end`, about as many as wanted."""
    span = max(end - start, _LEAST_SPAN)
    rough = span / max(wanted, 1)
    power = 10.0 ** floor(log10(rough))
    step = next(power * size for size in (1, 2, 2.5, 5, 10) if power * size >= rough * 0.999)
    first = ceil(start / step - 1e-9)
    last = floor(end / step + 1e-9)
    return tuple(step * place for place in range(first, last + 1))


def plain(value: float) -> str:
    """Return a tick without needless digits."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def x_axis(axes: Axes, values: Sequence[float], label: str, shown: Callable[[float], str] = plain) -> Markup:
    """Return grid lines, numbers and the label below the area."""
    marks = [
        line(axes.x(value), axes.top, axes.x(value), axes.bottom, "grid")
        + text(axes.x(value), axes.bottom + 16, shown(value), "tick", "middle")
        for value in values
    ]
    middle = (axes.left + axes.right) / 2
    return Markup("").join([*marks, text(middle, axes.bottom + 34, label, "label", "middle")])


def y_axis(axes: Axes, values: Sequence[float], label: str, shown: Callable[[float], str] = plain) -> Markup:
    """Return grid lines, numbers and the label above the area's left edge."""
    marks = [
        line(axes.left, axes.y(value), axes.right, axes.y(value), "grid")
        + text(axes.left - 6, axes.y(value) + 4, shown(value), "tick", "end")
        for value in values
    ]
    return Markup("").join([*marks, text(axes.left - 40, axes.top - 10, label, "label")])


def whisker(x: float, low: float, high: float, class_: str) -> Markup:
    """Return an upright interval with end marks, in places (not values)."""
    return (
        line(x, low, x, high, class_)
        + line(x - 4, low, x + 4, low, f"{class_} cap")
        + line(x - 4, high, x + 4, high, f"{class_} cap")
    )


def polyline(points: Sequence[tuple[float, float]], class_: str) -> Markup:
    """Return a line through places."""
    return element("polyline", points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points), class_=class_)


def legend(entries: Sequence[tuple[str, str]], x: float, y: float, most_width: float) -> Markup:
    """Return coloured squares with words, in as many rows as they need; see `legend_rows`."""
    parts = []
    at, row = x, 0
    for class_, said in entries:
        width = _entry_width(said)
        if at > x and at + width > x + most_width:
            at, row = x, row + 1
        parts.append(box(at, y + row * 18 - 10, 12, 12, class_) + text(at + 17, y + row * 18, said, "key"))
        at += width
    return Markup("").join(parts)


def legend_rows(entries: Sequence[tuple[str, str]], most_width: float) -> int:
    """Return how many rows a legend takes."""
    at, rows = 0.0, 1
    for _, said in entries:
        width = _entry_width(said)
        if at > 0 and at + width > most_width:
            at, rows = 0.0, rows + 1
        at += width
    return rows


def _entry_width(said: str) -> float:
    return 17 + 6.6 * len(said) + 16
