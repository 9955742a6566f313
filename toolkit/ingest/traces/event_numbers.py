"""Numbers of events as they are written: times in us as whole ns, ids and counts as integers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
import numpy as np

from toolkit.schema.trace import Int64s
from toolkit.units import NS_PER_S, NS_PER_US

LATEST_NS = 4_000_000_000 * NS_PER_S  # the year 2096; twice as much still fits an int64
_FEW_DIGITS = 20  # a time this short is before `LATEST_NS`
_MOST_PLAIN_DIGITS = 16  # of whole us, if the first is a 3 at most
_MOST_DIGITS = 40  # of a time; int() refuses thousands
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}(?:\.0{1,18})?")
_NEW_LINE, _POINT, _ZERO, _THREE = b"\n.03"


def whole(value: Any) -> int | None:
    """Return an id or count that fits an int64, also where a tool wrote it as text or with a point."""
    if value is None:
        return None
    if type(value) is int and abs(value) < 1 << 63:
        return value
    if isinstance(value, str | float) and _WHOLE.fullmatch(str(value)):
        return int(float(value)) if isinstance(value, float) else int(value.partition(".")[0])
    return None


def integers(values: list[int]) -> Int64s:
    """Return integers as a column; raises OverflowError if one does not fit."""
    return np.fromiter(values, dtype=np.int64, count=len(values))


def ns(text: bytes) -> int | None:
    """Return the ns of a time written in us, to the nearest; None if it is no finite time."""
    if len(text) < _FEW_DIGITS and text[-4:-3] == b".":
        thousandths = text[:-4] + text[-3:]
        if thousandths.isdigit():
            return int(thousandths)
    digits = text.strip(b'"')
    if not 0 < len(digits) <= _MOST_DIGITS:
        return None
    integer, dot, fraction = digits.partition(b".")
    if integer.isdigit() and len(fraction) <= 3 and (fraction.isdigit() or not dot):
        value = int(integer) * NS_PER_US + int((fraction + b"000")[:3])
        return value if value < LATEST_NS else None
    try:
        exact = Decimal(digits.decode()) * NS_PER_US
        return int(exact.to_integral_value()) if abs(exact) < LATEST_NS else None
    except (InvalidOperation, ValueError):
        return None


def many_ns(texts: Sequence[msgspec.Raw]) -> Int64s:
    """Return the ns of times that are all written in us with three decimals, or all without any.

    Profilers write them so; reading them together takes a tenth of the time. Raises ValueError for others.
    """
    lines = b"\n".join((*texts, b""))
    codes = np.frombuffer(lines, dtype=np.uint8)
    ends = np.flatnonzero(codes == _NEW_LINE)
    points = np.flatnonzero(codes == _POINT)
    lengths = np.diff(ends, prepend=-1) - 1
    decimals = 4 if len(points) else 0  # the point included
    digits = np.count_nonzero(codes - _ZERO < 10)  # unsigned: what is below wraps round
    if len(ends) != len(texts) or lengths.min() <= decimals or digits + len(points) + len(ends) != len(codes):
        raise ValueError("a time is no plain number")
    if decimals and not (len(points) == len(ends) and (points == ends - decimals).all()):
        raise ValueError("times have different decimals")
    longest = lengths - decimals == _MOST_PLAIN_DIGITS
    if (lengths - decimals > _MOST_PLAIN_DIGITS).any() or (codes[(ends - lengths)[longest]] > _THREE).any():
        raise ValueError("a time may be too late")
    found = np.fromstring(lines.replace(b".", b""), dtype=np.int64, sep="\n")
    return found if decimals else found * NS_PER_US
