# %% [markdown]
# # Choosing a step count
#
# SGLang on one H200, runs of 0 to 7 draft steps at batch 1, 4 and 8. Fit them, ask for an acceptance, and
# read the answer in the order in which it should be doubted: is the fit any good, which step count, for how
# wide a range of acceptance, at which batch.

# %%
from pathlib import Path

from toolkit import figures, fit, inspect, predict, predict_by_batch
from toolkit.report import frames

traces = Path("traces") if Path("traces").is_dir() else Path("../traces")
runs = inspect(sorted(traces.glob("*-sglang-*-tp1-*")))
model = fit(runs)

# %%
held_out = model.groups[0].holdout
print(f"{held_out.cells} configurations left out one at a time: off by {held_out.mape:.1%} on average,")
print(f"{held_out.covered90:.0%} inside their 90 % interval")

# %% [markdown]
# ## At an accept rate of 0.36
#
# As this server's log prints it, with 5 steps: correct over proposed drafts, so 1 + 0.36 x 5 = 2.8 tokens a
# cycle.

# %%
forecast = predict(model, accept_rate=0.36, at_num_draft_tokens=6, batch_size=1)
print(forecast.recommendation.why)

# %%
figures.throughput_figure(forecast)

# %%
candidates = frames.candidates(forecast)
columns = ["num_steps", "accept_length", "cycle_ms", "tok_s", "tok_s_lo", "tok_s_hi", "p_best", "break_even"]
candidates[columns].round(2)

# %% [markdown]
# Around the best step count throughput is flat: 4, 5 and 6 steps are within a few percent, less than the
# intervals. The choice between them is not what matters.

# %% [markdown]
# ## How much acceptance is needed
#
# Break-even moves little with the step count; what is expected lies far to its right. Speculation pays here
# unless acceptance falls below 1.5 tokens a cycle.

# %%
figures.accept_length_map_figure(forecast)

# %% [markdown]
# ## If acceptance is lower
#
# The best step count falls with it.

# %%
rates = (0.1, 0.2, 0.36, 0.6)
asked = [predict(model, accept_rate=rate, at_num_draft_tokens=6, batch_size=1) for rate in rates]
answers = frames.candidates(asked).query("recommended")
answers.assign(rate=rates)[["rate", "num_steps", "accept_length", "tok_s", "gain"]].round(2)

# %% [markdown]
# ## At other batch sizes
#
# Verified tokens are cheap while the GPU waits for memory. With more requests they are less so, and the
# gain falls.

# %%
by_batch = predict_by_batch(model, accept_rate=0.36, at_num_draft_tokens=6)
figures.batch_map_figure(by_batch)

# %% [markdown]
# ## What to do
#
# Take the step count that is recommended, run it, and hold the run against the forecast with `toolkit model
# check`. The acceptance in these runs is simulated: for a real server give the rate that its log prints for
# real prompts.
