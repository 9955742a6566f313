"""What each source says of a configuration, and how the sources are joined."""
