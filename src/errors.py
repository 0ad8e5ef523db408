"""All errors of this program. The message says what went wrong, the hint what to do next.

BotError                 message, hint, exit_code (1 unless stated), max_retries (0 unless stated)
  ConfigError            the user's settings are wrong (exit code 2)
  RequestFailed          a request to a server has no usable answer
    ClientError          no answer arrived (exit code 4)
      ConnectFailed      the connection failed (any number of retries)
        NeverReached     and the server has not answered since the program began (no retry)
        HostUnknown      the name does not resolve (no retry)
      TlsFailed          the certificate is not trusted, or what is spoken is not what the address says
        NoTls            the server does not speak TLS
      NotHttp            the server does not speak HTTP
      Timeout            a time limit was reached (exit code 1)
      StreamCut          the answer ended too early or cannot be read (exit code 1, any number of retries)
        AnswerUnfinished the server ended it, and without a stop reason
    ServerError          the server refused: status, body, retry_after (retries depend on the status)
      ServerLoading      its model is not loaded yet (HTTP 503; retry.py has a time limit of its own for it)
      ParserFailed       it could not parse what its own model wrote (HTTP 500, or inside the answer)
      ToolsUnsupported   it accepts no `tools`: started without --enable-auto-tool-choice (HTTP 400)
      TemplateRejected   its chat template refuses these roles (HTTP 400)
      ContentRejected    its model accepts only text, or fewer images (HTTP 400)
      ContextTooLong     prompt and answer exceed the model's context (HTTP 400)
      ModelNotFound      it serves no model of that name (HTTP 404)
      Unauthorized       the API key is missing or wrong (HTTP 401, 403)
    WireError            the server's bytes break its own protocol
  LimitReached           the run reached its limit of turns, tokens or time (exit code 3)
  Suspended              a call waits for an answer that comes later; the library ends its run with it
  Cancelled              the caller stopped the run, from another thread or task (exit code 130)
  ToolError              a tool failed; becomes a tool result
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

# How the program ends, for scripts; docs/scripts.md and --help say the same.
ANSWERED, FAILED, USAGE, LIMIT, UNREACHABLE, DENIED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


ANY_NUMBER = 1_000_000  # of retries: the settings set the limit
# 408 timeout, 425 too early, 429 too many requests; a server or proxy in trouble, and 529 overloaded.
TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504, 529})


class Advice(str):
    """A text that names settings, options or commands; `library`: the same for a program, which has arguments instead.

    A front end shows the one of the two that its user can follow. Neither is made from the other.
    """

    library: str

    def __new__(cls, text: str, library: str) -> Advice:
        advice = super().__new__(cls, text)
        advice.library = library
        return advice

    def __reduce__(self) -> tuple[type[Advice], tuple[str, str]]:
        """For copies."""
        return Advice, (str(self), self.library)

    def __add__(self, more: str) -> Advice:
        return Advice(str(self) + more, self.library + more)


CHECK_ADDRESS = Advice("Check vllm.base_url.", "Check `base_url`.")
ASK_FOR_LESS = Advice(
    "Use /compact or /new, or ask for less at once.", "Ask for less at once, or begin another conversation."
)


class BotError(Exception):
    """`max_retries`: how often the request may be worth repeating."""

    exit_code = FAILED
    max_retries = 0

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message

    def add_hint(self, sentence: str) -> None:
        """Advise this, too."""
        self.hint = self.hint + f" {sentence}" if self.hint else sentence


def describe_error(error: Exception) -> str:
    """For the user: what is neither a BotError nor a refusal by the system is a mistake of ours, and says so."""
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        return f"{error.filename}: {reason}." if error.filename else f"{reason}."
    return str(error) if isinstance(error, BotError) else f"Unexpected {type(error).__name__}: {error}"


class ConfigError(BotError):
    exit_code = USAGE


class RequestFailed(BotError):
    """What the model's logic may catch: Cancelled passes through it.

    `was_shown`: events of the answer were given before it. `retry_after`: seconds that the server asks to wait.
    """

    was_shown = False
    retry_after: float | None = None


class ClientError(RequestFailed):
    exit_code = UNREACHABLE


class ConnectFailed(ClientError):
    max_retries = ANY_NUMBER


class NeverReached(ConnectFailed):
    max_retries = 0  # who starts the program wants to know at once


class HostUnknown(ConnectFailed):
    max_retries = 0


class TlsFailed(ClientError):
    pass


class NoTls(TlsFailed):
    pass


class NotHttp(ClientError):
    pass


class Timeout(ClientError):
    exit_code = FAILED


class StreamCut(ClientError):
    exit_code = FAILED

    def __init__(self, message: str, hint: str = "", *, max_retries: int = ANY_NUMBER) -> None:
        super().__init__(message, hint)
        self.max_retries = max_retries


class AnswerUnfinished(StreamCut):
    """No connection broke: some servers end an answer so that they cannot parse."""


class ServerError(RequestFailed):
    """`in_answer`: it came after a part of the answer."""

    in_answer = False

    def __init__(self, message: str, hint: str = "", *, status: int = 0, body: str = "") -> None:
        super().__init__(message, hint)
        self.status = status
        self.body = body
        self.max_retries = ANY_NUMBER if status in TRANSIENT_STATUS else 0

    @property
    def is_about_request(self) -> bool:
        """Whether the status blames the request, and not the server."""
        return 400 <= self.status < 500


class ServerLoading(ServerError):
    pass


class ParserFailed(ServerError):
    """The model has answered, and the server's parser turned the answer into an error."""


class ToolsUnsupported(ServerError):
    pass


class TokensUnsupported(ServerError):
    """The server does not generate from tokens, or answers without the text of what it generated."""


class ToolsDropped(ServerError):
    """The server accepted tools and left them out of the prompt."""


class TemplateFailed(ServerError):
    """The chat template fails with these tools or calls, and might not without them."""


class TemplateRejected(ServerError):
    """The chat template does not take these roles."""


class ContentRejected(ServerError):
    """`max_media`: how many images or sounds a request may hold; 0 if none."""

    max_media = 0


class ContextTooLong(ServerError):
    """`excess`: by how many tokens, at least; 0 where that is not known."""

    excess = 0


class ModelNotFound(ServerError):
    pass


class Unauthorized(ServerError):
    pass


class WireError(RequestFailed):
    pass


class LimitReached(BotError):
    """`result`: what there is of the answer, in the library."""

    exit_code = LIMIT
    result: Any = None


class Suspended(BotError):
    """Raised by an approver. The calls that have no result stay open."""


class Cancelled(BotError):
    exit_code = INTERRUPTED


class ToolError(BotError):
    pass


MAX_NAMES = 20  # of models in a message


def join_names(names: Sequence[str]) -> str:
    """The names of models, for a message; of many the first."""
    more = f" and {len(names) - MAX_NAMES} more (vllm-bot models lists all)" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more
