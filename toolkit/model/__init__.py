"""The cost model of a cycle: formulas, fit, what the fit cannot tell, and acceptance. No files, no clocks."""
