"""A small real speculative engine on torch: for calibration, and where no other engine is installed.

It imports torch, the standard library and itself. Importing this package loads none of them.
"""

VERSION = "1.0.0"  # of the engine, as it tells its clients
