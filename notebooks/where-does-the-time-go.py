# %% [markdown]
# # Where does the time of a cycle go?
#
# One run: SGLang with EAGLE-3 on two H200, 3 draft steps, one request at a time. Its folder holds a kernel
# trace of both ranks, spans of every cycle, the server's log and the client's counts.

# %%
from pathlib import Path

from toolkit import figures, inspect
from toolkit.report import frames

traces = Path("traces") if Path("traces").is_dir() else Path("../traces")
runs = inspect(traces / "2026-11-29-sglang-llama8b-dummy-tp2-k3-b1")
run = runs.runs[0]
cell = run.configurations[0]

# %% [markdown]
# ## One cycle, to scale
#
# The cycle is timed by spans (untraced), the phases by the trace. Read the grey part first: it is time in
# which no phase runs.

# %%
figures.cycle_figure(run, cell)

# %%
phases = frames.phases(runs)
phases[["tp_rank", "phase", "graph_median_us", "busy_us", "wait_us", "stage_median_us", "kernels"]].round(1)

# %% [markdown]
# Shares of the cycle, mean over the ranks. Verify is about half, and the gap is nearly as large: the server
# is bound by its host, not by its GPUs. Python stacks were on in this trace, which makes gaps and the waits
# after them longer; phases inside CUDA graphs are not touched by that.

# %%
shares = phases.groupby("phase").graph_median_us.mean() / cell.cycle_us.median
shares.sort_values(ascending=False).map("{:.1%}".format).to_frame("share of the cycle")

# %% [markdown]
# ## Draft forwards
#
# The draft pass of 3 steps holds two forwards; the third draft comes from the extend after the verify. At
# 193 us each, the two are a twentieth of the cycle.

# %%
frames.draft_forwards(runs)[["forward", "median_us", "source"]].round(1)

# %% [markdown]
# ## Collectives
#
# `wire_us` is what one all-reduce takes when nobody waits, `wait_us_per_cycle` what a rank spends above
# that. 65 all-reduces of 2.3 us are 150 us; the waits are larger, and most of a phase's wait is at its
# first collective: that is one rank arriving late, no slow wire.

# %%
columns = ["phase", "op", "algorithm", "per_cycle", "wire_us", "wait_us_per_cycle", "first_wait_max_us"]
frames.collectives(runs)[columns].round(1)

# %% [markdown]
# ## Can the recording be trusted?

# %%
for check in run.health:
    if check.ok is False:
        print(f"{check.check}: {check.detail}")

# %% [markdown]
# ## What it means
#
# Without the gap a cycle would take 4.6 ms instead of 7.9. A faster draft gains little here: all of the
# draft pass and the extend together are a tenth of the cycle. A look at the host's side (scheduler, overlap,
# CPU) comes first.
