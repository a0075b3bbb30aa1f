"""Values as they are recorded: canonical bytes, tagged types, and how they are shown to people. Pure."""
