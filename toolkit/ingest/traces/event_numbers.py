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


def wholes(values: Sequence[Any]) -> Int64s | None:
    """Return what `whole` says of each value where all are plain integers, else None."""
    if set(map(type, values)) - {int}:
        return None
    try:
        found = np.array(values, dtype=np.int64)
    except OverflowError:
        return None
    return found if (found > np.iinfo(np.int64).min).all() else None


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


def many_ns(texts: Sequence[msgspec.Raw]) -> Int64s | None:
    """Return what `ns` says of each time where all are written with three decimals, else None.

    Kineto writes them so; reading them together takes a tenth of the time.
    """
    lines = b"\n".join((*texts, b""))
    codes = np.frombuffer(lines, dtype=np.uint8)
    ends = np.flatnonzero(codes == _NEW_LINE)
    if len(ends) != len(texts):
        return None
    lengths = np.diff(ends, prepend=-1) - 1
    points = np.flatnonzero(codes == _POINT)
    if not (len(points) == len(ends) and lengths.min() > 4 and (points == ends - 4).all()):
        return None
    digits = np.count_nonzero(codes - _ZERO < 10)  # unsigned: what is below wraps round
    if digits + 2 * len(ends) != len(codes) or lengths.max() > _FEW_DIGITS:
        return None
    longest = codes[ends[lengths == _FEW_DIGITS] - _FEW_DIGITS]
    if (longest > _THREE).any():  # may lie behind `LATEST_NS`
        return None
    return np.fromstring(lines.replace(b".", b""), dtype=np.int64, sep="\n")
