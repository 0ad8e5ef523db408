"""The agent as a tool of other agents, over the Model Context Protocol; see modelcontextprotocol.io.

A cloud agent hands a task to the local model: `delegate(task, folder)`. Only `server.py` imports the SDK, of the extra
`mcp`.
"""
