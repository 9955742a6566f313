# %% [markdown]
# # Why is speculation slower here?
#
# The case this project was started for: 5 draft steps gave 71 tok/s, plain decoding 90. There, a log of two
# lines and one number for plain decoding is all there is. Beside it, runs on H200 at TP 1, 2 and 4 in which
# speculation goes from a clear gain to a loss, with traces that show why.

# %%
from pathlib import Path

import pandas as pd

from toolkit import figures, fit, inspect, predict
from toolkit.errors import UndeterminedError
from toolkit.report import frames

root = Path(".") if Path("traces").is_dir() else Path("..")
traces = root / "traces"

# %% [markdown]
# ## The founding case: what two lines tell

# %%
kimi = inspect(root / "tests/data/kimi-k2.5-tp8", offline_accuracy=0.77)
cycles = frames.cycles(kimi)
cycles[["num_steps", "batch_size", "cycle_mean_us", "accept_length", "measured_tok_s", "cycle_source"]].round(
    2
)

# %% [markdown]
# At two accept lengths, 2.17 and 1.65, the cycle is the same. So the cost of a cycle is one thing and
# acceptance is another, and break-even is their ratio to a plain step: 27.8 / 11.1 = 2.5 tokens a cycle.

# %%
model = fit(kimi)
forecast = predict(model, accept_rate=0.36)
figures.throughput_figure(forecast)

# %%
print(forecast.recommendation.why)

# %% [markdown]
# Hatched is what one step count cannot tell. Asked for it all the same, the toolkit refuses and names the
# run that would settle it.

# %%
try:
    predict(model, accept_rate=0.36, steps=(2,))
except UndeterminedError as error:
    print(error)

# %% [markdown]
# Was it the draft? Verify was later seen to be 95 % of the cycle. With that, even a draft that costs
# nothing gains about 5 %, on however many GPUs it runs.

# %%
print(predict(model, accept_rate=0.36, verify_share=0.95).draft_tp.why)

# %% [markdown]
# And a head that is right 77 % of the time offline should have kept more than it did:

# %%
audits = [audit for run in kimi.runs for audit in run.acceptance_audit]
print(audits[0].why)

# %% [markdown]
# ## The same on H200: TP 1, 2 and 4
#
# One model, one draft, one request at a time, and the same simulated acceptance. More GPUs shorten the
# plain step far more than they shorten the cycle.

# %%
pattern = "2026-11-30-sglang-llama-8b-shaped-dummy-tp{}-k{}-b1"
picked = [pattern.format(tp, steps) for tp in (1, 2, 4) for steps in (0, 3)]
h200 = inspect([traces / name for name in picked])
cycles = frames.cycles(h200)
cycles["cycle_ms"] = cycles.cycle_mean_us / 1000
table = cycles.pivot(index="tp_size", columns="num_steps", values="cycle_ms").round(2)
table.columns = ["plain step, ms", "cycle of 3 steps, ms"]
table["break-even, tokens"] = (table.iloc[:, 1] / table.iloc[:, 0]).round(2)
table

# %% [markdown]
# At 2 tokens a cycle speculation pays where break-even is below 2: well at TP 1, no more at TP 2 and least of
# all at TP 4.

# %%
tp1, tp2, tp4 = figures.comparisons(h200)
figures.against_plain_figure(tp1)

# %%
figures.against_plain_figure(tp4)

# %% [markdown]
# ## Where the cycle's time is, by TP
#
# Two things do not shrink with every GPU. One is in no graph: the host's work between the launches of a
# cycle, which plain decoding hides behind the GPU (`gap`: 0.2 ms at TP 1, one to two at TP 2 and 4). The
# other is what verifying four tokens takes above decoding one, about a millisecond at any TP.

# %%
phases = frames.phases(h200)
phases.pivot_table(index="phase", columns="tp_size", values="graph_median_us", aggfunc="mean").round(0)

# %% [markdown]
# Waiting is in these phases too: one all-reduce takes 2 to 3 us, and a verify waits for other ranks 200 us
# and more in all, most of it where one rank comes late to the first of them.

# %%
rank_waits = frames.collectives(h200).query("phase == 'verify' and op == 'all_reduce'")
rank_waits[["tp_size", "num_steps", "algorithm", "per_cycle", "wire_us", "wait_us_per_cycle"]].round(1)

# %%
run = next(run for run in h200.runs if run.tp_size == 4 and run.num_steps == 3)
figures.cycle_figure(run, run.configurations[0])

# %% [markdown]
# ## What it means
#
# Speculation is slower where its cycle costs more plain steps than it yields tokens. In the founding case
# verify and its collectives did that; on H200 at TP 4 the plain step became so short that the host's part
# of a cycle did. Both show in one ratio, cycle over plain step, before any prompt is judged.

# %%
answers = {"founding case": forecast.recommendation.action}
answers |= {f"H200, TP {tp}": f"break-even {even}" for tp, even in table["break-even, tokens"].items()}
pd.Series(answers, name="answer").to_frame()
