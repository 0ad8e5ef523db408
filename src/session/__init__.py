"""What survives: the journal of a conversation, its resumption, undoing, searching, exporting."""
