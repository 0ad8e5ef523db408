"""The agent in an editor, over the Agent Client Protocol on standard input and output; see agentclientprotocol.com.

A thin layer over `app`: an editor's session is a journal and a runtime, and a prompt is `Runtime.answer` in a thread of
its own. Only this room imports the SDK, of the extra `acp`.
"""
