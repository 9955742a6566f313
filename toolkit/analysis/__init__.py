"""Pure analyses: records of one run in, what it means out; no files, clocks or processes."""
