"""Every error of ours. What went wrong is the message, what to do next is the hint.

BotError                 message, hint, exit_code (1 where nothing else is said)
  ConfigError            the user's settings (exit code 2)
  ClientError            below the wire: no bytes could be had (exit code 4)
    ConnectFailed        nobody listens there
      NeverReached       nor did anybody since the program began
      HostUnknown        no such name
    TlsFailed            the connection cannot be trusted, or is none
    NotHttp              something listens that does not speak HTTP
    Timeout              one of the clocks ran out (exit code 1)
    StreamCut            the connection ended before the answer did (exit code 1)
      AnswerEmpty        and before it began
    Undecodable          the body's compression is broken (exit code 1)
  ServerError            the server said no: status, body, retry_after (seconds it asks to wait)
    ServerLoading        it has no model yet (HTTP 503)
    ToolsUnsupported     it takes no `tools`: started without --enable-auto-tool-choice (HTTP 400)
    TemplateRejected     its chat template refuses the roles it was given (HTTP 400)
    ContentRejected      its model takes nothing but text (HTTP 400)
    ContextTooLong       prompt and answer exceed the model's context (HTTP 400)
    ModelNotFound        it serves no model of that name (HTTP 404)
    Unauthorized         the API key is missing or wrong (HTTP 401, 403)
  WireError              the server's bytes break its own protocol
  LimitReached           the run took more turns, tokens or time than it may (exit code 3)
  Cancelled              a program that uses the library stopped the run (exit code 130)
  ToolError              a tool could not do it; becomes a tool result
"""

from __future__ import annotations

# How the program ends, for scripts; docs/scripts.md and --help say the same.
ANSWERED, FAILED, USAGE, LIMIT, UNREACHABLE, DENIED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


class BotError(Exception):
    exit_code = FAILED

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


def in_words(error: Exception) -> str:
    """For the user: what is no BotError is a mistake of ours, and says so."""
    return str(error) if isinstance(error, BotError) else f"Unexpected {type(error).__name__}: {error}"


class ConfigError(BotError):
    exit_code = USAGE


class ClientError(BotError):
    exit_code = UNREACHABLE


class ConnectFailed(ClientError):
    pass


class NeverReached(ConnectFailed):
    pass


class HostUnknown(ConnectFailed):
    pass


class TlsFailed(ClientError):
    pass


class NotHttp(ClientError):
    pass


class Timeout(ClientError):
    exit_code = FAILED


class StreamCut(ClientError):
    exit_code = FAILED


class AnswerEmpty(StreamCut):
    pass


class Undecodable(ClientError):
    exit_code = FAILED


class ServerError(BotError):
    retry_after: float | None = None
    in_answer = False  # whether it came in place of an answer's end, and not of the answer

    def __init__(self, message: str, hint: str = "", *, status: int = 0, body: str = "") -> None:
        super().__init__(message, hint)
        self.status = status
        self.body = body


class ServerLoading(ServerError):
    pass


class ToolsUnsupported(ServerError):
    pass


class TemplateRejected(ServerError):
    pass


class ContentRejected(ServerError):
    pass


class ContextTooLong(ServerError):
    """`excess`: by how many tokens, at least; 0 where that is not known."""

    excess = 0


class ModelNotFound(ServerError):
    pass


class Unauthorized(ServerError):
    pass


class WireError(BotError):
    pass


class LimitReached(BotError):
    exit_code = LIMIT


class Cancelled(BotError):
    exit_code = INTERRUPTED


class ToolError(BotError):
    pass
