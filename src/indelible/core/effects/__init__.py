"""Effects: one tool call and its fate; what makes two calls the same, and the walk of a call. Pure."""
