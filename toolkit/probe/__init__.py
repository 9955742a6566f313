"""The probe: what the toolkit loads inside a server. Its folder for PYTHONPATH is `site/`."""
