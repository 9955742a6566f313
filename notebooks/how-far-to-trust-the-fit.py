# %% [markdown]
# # How far can the fit be trusted?
#
# A fit that reproduces what it was given says nothing yet. Three questions say more: what does it make of
# runs it never saw, does it beat a straight line, and what can the runs not tell at all?

# %%
from dataclasses import replace
from pathlib import Path

from toolkit import check, figures, fit, inspect
from toolkit.report import frames

traces = Path("traces") if Path("traces").is_dir() else Path("../traces")
one = inspect(sorted(traces.glob("*-sglang-*-tp1-*")))
two = inspect(sorted(traces.glob("*-sglang-*-tp2-*")))

# %% [markdown]
# ## One GPU: fitted against measured

# %%
model = fit(one)
figures.fitted_figure(model.groups[0])

# %% [markdown]
# ## Runs that were left out
#
# One sweep of step counts, of which all runs of 3 and of 7 steps are kept from the fit: 3 lies between what
# is left, 7 beyond it (hollow).

# %%
sweep = [run for run in one.runs if "llama-8b-shaped" in run.run]
left_out = replace(one, runs=tuple(run for run in sweep if run.num_steps in (3, 7)))
kept = replace(one, runs=tuple(run for run in sweep if run.num_steps not in (3, 7)))
report = check(fit(kept), left_out)
figures.checked_figure(report)

# %% [markdown]
# The one far off has a context of 4,247 tokens. Without the run of 3 steps no speculative run at such a
# context is left in the sweep, and what attention costs in a verify forward is not in the others. An interval
# knows only what the runs know. With runs at a context of 3,128 from another day the same configuration is
# no surprise:

# %%
others = replace(one, runs=tuple(run for run in one.runs if run not in left_out.runs))
again = check(fit(others), left_out)
cells = frames.checked_cells(again)
cells[["num_steps", "batch_size", "context_tokens", "measured_ms", "predicted_ms", "error", "inside"]].round(
    3
)

# %% [markdown]
# ## Two GPUs: where it is worse
#
# Half of these cycles are set by the host, which differed from one server start to the next. No term of the
# model knows which host a run had, so the spread stays in the residuals and in the intervals.

# %%
pair = fit(two)
figures.fitted_figure(pair.groups[0])

# %% [markdown]
# A straight line in the step count can be held against the fit where two other step counts were run at the
# same batch and context; both errors are of those configurations.

# %%
held_out = {"TP 1": model.groups[0].holdout, "TP 2": pair.groups[0].holdout}
for name, found in held_out.items():
    print(f"{name}: {found.cells} left out one at a time, off by {found.mape:.1%} on average,")
    print(f"      {found.covered90:.0%} inside their 90 % interval")
    print(f"      straight line {found.null_mape:.1%}, the fit there {found.mape_on_null_cells:.1%}")

# %% [markdown]
# ## What the runs cannot tell
#
# A coefficient whose error is as large as itself is not told from zero; one without a value is open.

# %%
terms = frames.terms(model)
terms[["name", "value", "se", "identified", "source"]].round(1)

# %%
identifiability = model.groups[0].identifiability
print("cannot be told apart:", identifiability.confounded or "nothing")
for run in model.groups[0].next_runs:
    print(f"next: {run.num_steps} steps at batch {run.batch_size}: {run.why}")

# %% [markdown]
# ## What to take from it
#
# Trust a forecast as far as hold-outs like it went: between step counts that were run, to the run-to-run
# spread; beyond them, to the interval. Across context or batch there must be a run, or the answer is the
# form of the model alone.
