"""Live servers: what runs behind a process id, how to look at it, and what it says while it serves."""
