"""The words below a figure's title: which server, which load."""

from __future__ import annotations

from toolkit.schema.cost import GroupModel
from toolkit.schema.forecast import Forecast
from toolkit.schema.inspection import Configuration, RunReport


def steps_label(num_steps: int | None) -> str:
    """Return a step count in words; 0 is plain decoding."""
    if num_steps is None:
        return "steps not known"
    return "plain" if num_steps == 0 else f"{num_steps} step{'s' if num_steps > 1 else ''}"


def server_label(run: RunReport | GroupModel) -> str:
    """Return engine, model, GPU and TP size, as far as known."""
    parts = [str(part) for part in (run.engine, run.model, run.gpu) if part]
    return ", ".join([*parts, f"TP{run.tp_size}"] if run.tp_size else parts)


def load_label(cell: Configuration) -> str:
    """Return step count, batch and context of a configuration."""
    parts = [steps_label(cell.num_steps)]
    if cell.batch_size is not None:
        parts.append(f"batch {cell.batch_size}")
    if cell.context_tokens is not None:
        parts.append(f"context {cell.context_tokens:,}")
    return ", ".join(parts)


def forecast_label(forecast: Forecast, *, batch: bool = True) -> str:
    """Return the server and the load that a forecast is for."""
    inputs = forecast.inputs
    parts = [str(inputs[key]) for key in ("engine", "model_name", "gpu") if inputs.get(key)]
    if inputs.get("tp_size"):
        parts.append(f"TP{inputs['tp_size']}")
    if batch and inputs.get("batch_size") is not None:
        parts.append(f"batch {inputs['batch_size']}")
    context = inputs.get("context_tokens")
    return ", ".join([*parts, f"context {context:,}"] if isinstance(context, int) else parts)


def acceptance_label(forecast: Forecast) -> str:
    """Return the acceptance that a forecast is made for."""
    used = forecast.acceptance
    if used.accept_length is None:
        return "acceptance not known"
    of = f" at {steps_label(used.num_steps)}" if used.num_steps else ""
    return f"{used.accept_length:.2f} tokens a cycle{of}"
