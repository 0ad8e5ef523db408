"""The chunks of an answer: what of them leaves, and when. Pure."""
