"""Saved conversations: the journal, resuming, undo, search and export."""
