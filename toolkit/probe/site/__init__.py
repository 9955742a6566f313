"""A folder for a server's PYTHONPATH. This file lets it be installed; a server ignores it."""
