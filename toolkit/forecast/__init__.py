"""Questions about settings answered from a cost model: cycle time, tokens per second, alternatives."""
