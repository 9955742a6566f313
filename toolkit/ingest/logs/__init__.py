"""Server logs: lines of every engine, and the settings a server prints at its start."""
