"""A conversation in the shape of chat completions, as servers and their chat templates take it. Pure."""
