"""What a refusal changes, whoever asks: the history where it is odd, or else the call path. Pure.

A refusal of an odd history may be about that history. One that is so by its kind mends it at once; any other one does
where nothing else in the request explains it.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ..errors import ParserFailed, ServerError
from .call_path import CallPath, Downgrade
from .facts import FactStore, ServedModel
from .history.mending import blames_history, describe_mended, may_blame_history


def choose_downgrade(
    path: CallPath, refusal: ServerError, odd: Sequence[str], sent: frozenset[str], *, are_tools_ours: bool
) -> Downgrade:
    """The path without what was refused, once for each request. Raises the refusal where nothing is left to change.

    `odd`: what of the history would be mended; see mend_history. `sent` and `are_tools_ours`: see CallPath.downgrade.
    """
    mended = Downgrade(replace(path, mended=True), describe_mended(odd))
    may_mend = bool(odd) and not (path.mended or refusal.in_answer)  # a history that is answered was taken
    if may_mend and blames_history(refusal):
        return mended
    try:
        return path.downgrade(refusal, sent, are_tools_ours=are_tools_ours and not may_mend)
    except ServerError:
        if may_mend and may_blame_history(refusal):
            return mended
        raise


def avoid_parser(
    facts: FactStore, served: ServedModel, path: CallPath, failure: ParserFailed, *, may_ask_again: bool
) -> Downgrade:
    """The path for the same turn after the server's parser failed on its answer, which counts against the parser.

    Raises the failure where the turn may not be asked again, or was.
    """
    if path.mode == "native":
        facts.note_parser(served, failed=True)
    if not may_ask_again:
        raise failure
    return path.downgrade(failure, frozenset())
