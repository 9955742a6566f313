"""Latency of all-reduces by message size, algorithm and group."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from toolkit.figures.style import MARKERS, SERIES, footnote, new_figure, styled
from toolkit.schema.calibration import Calibration, CollectiveLatency, CollectiveOp

_NAMES = {"all_reduce": "all-reduce", "all_gather": "all-gather", "broadcast": "broadcast"}
_KB, _MB = 1 << 10, 1 << 20
_FEW_TICKS = 3


@styled
def allreduce_figure(calibration: Calibration, op: CollectiveOp = "all_reduce") -> Figure:
    """Return what one more collective costs by message size: a panel for each group, a line an algorithm.

    Shaded is from the 10th to the 90th percentile of the repeats. ValueError if `op` was not measured.
    """
    found = [one for one in calibration.collectives if one.op == op]
    if not found:
        raise ValueError(f"the calibration holds no {_NAMES[op]}")
    groups = sorted({one.group_size for one in found})
    algorithms = list(dict.fromkeys(one.algorithm for one in found))
    host = f"{calibration.gpu_count} x {calibration.gpu}" if calibration.gpu_count else "this CPU"
    figure, panels = new_figure(
        f"Latency of one {_NAMES[op]} by message size",
        columns=len(groups),
        width=max(8.0, 3.9 * len(groups)),
        height=4.2,
        sharey=True,
    )
    for axes, group in zip(panels, groups, strict=True):
        for place, algorithm in enumerate(algorithms):
            same = [one for one in found if (one.group_size, one.algorithm) == (group, algorithm)]
            _line(axes, sorted(same, key=lambda one: one.message_bytes), place % len(SERIES))
        axes.set_title(f"{host}: {group} ranks", pad=8)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xlabel("message of a rank")
        axes.grid(which="major")
        _ticks(axes, sorted({one.message_bytes for one in found}))
    panels[0].set_ylabel("latency, us (median of repeats)")
    panels[-1].legend(loc="upper left")
    footnote(
        figure, "What one more collective adds to a chain of them, all ranks in step; shaded: p10 to p90."
    )
    return figure


def _line(axes: Axes, same: list[CollectiveLatency], place: int) -> None:
    if not same:
        return
    sizes = [one.message_bytes for one in same]
    axes.fill_between(
        sizes,
        [one.latency_us.p10 for one in same],
        [one.latency_us.p90 for one in same],
        color=SERIES[place],
        alpha=0.18,
        linewidth=0,
    )
    axes.plot(
        sizes,
        [one.latency_us.median for one in same],
        color=SERIES[place],
        marker=MARKERS[place],
        markersize=5.5,
        linewidth=1.5,
        label=same[0].algorithm,
    )


def _ticks(axes: Axes, sizes: list[int]) -> None:
    """Name every second power of two in bytes, and us as plain numbers."""
    shown = sizes[:: max(1, round(len(sizes) / 7))]
    axes.set_xticks(shown, [_size(size) for size in shown])
    axes.minorticks_off()
    low, high = axes.get_ylim()
    axes.set_yticks(_nice(low, high, (1, 2, 5)) or [low])
    if len(axes.get_yticks()) < _FEW_TICKS:
        axes.set_yticks(_nice(low, high, (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)) or [low])
    axes.set_ylim(low, high)
    axes.yaxis.set_major_formatter("{x:g}")


def _nice(low: float, high: float, digits: tuple[float, ...]) -> list[float]:
    """Return the numbers with one of these leading digits between two ends."""
    found = [digit * 10.0**power for power in range(-1, 6) for digit in digits]
    return [number for number in found if low <= number <= high]


def _size(count: int) -> str:
    if count >= _MB:
        return f"{count / _MB:g} MB"
    return f"{count / _KB:g} KB" if count >= _KB else f"{count} B"
