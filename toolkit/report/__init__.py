"""Text for people and JSON for programs, from records; nothing here prints."""
