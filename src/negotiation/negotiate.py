"""Ask a server until it accepts: send, refusal, change of the path, send again. Without I/O.

The model of a conversation and the body of a gateway's client are its users. Each edits its own request for a path, and
decides what a refusal changes; the order of things is the same.
"""

from __future__ import annotations

from collections.abc import Generator, Set
from typing import Any, Protocol, TypeVar

from ..errors import ParserFailed, ServerError
from ..types.effects import Aside, Effect
from .call_path import GRAMMAR_FIELDS, CallPath, blames_grammar

INTERNAL_ERROR = 500

Body = TypeVar("Body")
Given = TypeVar("Given", covariant=True)  # what sending gives beside effects: the answer's events


class Asker(Protocol[Body, Given]):
    """Who asks a server, on one call path after the other."""

    def prepare(self, path: CallPath) -> Aside[CallPath]:
        """The path with what has to be known before a request on it."""

    def edit(self, path: CallPath, without: Set[str]) -> Body:
        """The request for this path. `without`: optional fields that are left out beside the path's."""

    def list_optional_fields(self, body: Body) -> frozenset[str]:
        """The fields of a request that may be left out."""

    def send(self, body: Body, path: CallPath) -> Generator[Effect | Given, Any, None]:
        """Returns once the server has accepted the request. Raises ServerError where it refuses."""

    def change(self, path: CallPath, refusal: ServerError, body: Body, without: Set[str]) -> Aside[CallPath]:
        """The path without what was refused. Raises the refusal where nothing is left to change."""

    def accept(self, path: CallPath, without: Set[str]) -> None:
        """The server accepted a request on this path. `without`: fields of a grammar with which it had failed."""


def negotiate(
    asker: Asker[Body, Given], path: CallPath, *, doubts_grammar: bool = True
) -> Generator[Effect | Given, Any, None]:
    """Send what `asker` edits until the server accepts it, beginning with this path. Raises the last refusal.

    Some servers answer a grammar that they cannot use with status 500, and do not say so. The request without one
    tells, unless that is known already: `doubts_grammar`.
    """
    without: frozenset[str] = frozenset()
    while True:
        path = yield from asker.prepare(path)
        body = asker.edit(path, without)
        try:
            yield from asker.send(body, path)
        except ServerError as refusal:
            is_of_answer = refusal.in_answer or isinstance(refusal, ParserFailed)
            is_unexplained = refusal.status == INTERNAL_ERROR and not is_of_answer and not blames_grammar(refusal)
            may_doubt = doubts_grammar and is_unexplained
            if may_doubt and (grammar := asker.list_optional_fields(body) & GRAMMAR_FIELDS):
                without |= grammar
                continue
            path = yield from asker.change(path, refusal, body, without)
        else:
            asker.accept(path, without)
            return
