"""The public library: servers, agents, runs and their results, for threads and for asyncio."""
