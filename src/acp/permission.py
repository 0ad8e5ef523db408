"""Our questions about calls as the editor's, and the editor's answers as ours, one to one.

The answers are: once, in this session, always, no, and no with words. An editor has no place to type words at such a
question. So the words come by a form, where the editor shows forms; else the turn ends after the refusal, and what is
typed next says what to do instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    ContentToolCallContent,
    PermissionOption,
    TextContentBlock,
    ToolCallUpdate,
)

from ..app.call_title import make_title
from ..security.permissions.approval import DENIED, SUBMIT_PLAN, Answer, Request, refuse_with
from ..security.permissions.rules import describe_rule
from ..security.text.sanitize import reveal, sanitize
from ..types.sandbox import Grant
from .editor import Editor
from .updates import Updates, fence

ONCE, SESSION, ALWAYS, NO, NO_WITH_WORDS = "once", "session", "always", "no", "no_with_words"
WIDER: dict[Grant, str] = {"network": "Once, with the network", "outside": "Once, outside the sandbox"}
WORDS_FOLLOW = Answer(False, "the user said no, and will say what to do instead.")
QUESTION = "What should the model do instead?"


class EditorApprover:
    """An Approver that asks in the editor. Nothing but an option that allows, chosen there, approves.

    `save_rule` keeps a rule for later sessions and may raise OSError. `await_words` is called where the turn is to end
    after the refusal.
    """

    def __init__(
        self,
        editor: Editor,
        session_id: str,
        updates: Updates,
        save_rule: Callable[[dict[str, Any]], None],
        await_words: Callable[[], None],
    ) -> None:
        self._editor = editor
        self._session_id = session_id
        self._updates = updates
        self._save_rule = save_rule
        self._await_words = await_words

    def approve(self, request: Request) -> Future[Answer]:
        question = describe_question(request, self._updates)  # in this thread, as it may read the editor's files
        return self._editor.run(self._ask(request, question))

    async def _ask(self, request: Request, question: ToolCallUpdate) -> Answer:
        asked = await self._editor.client.request_permission(self._session_id, question, list_options(request))
        if not isinstance(asked.outcome, AllowedOutcome):  # the editor cancelled the turn
            return DENIED
        if asked.outcome.option_id == NO_WITH_WORDS:
            return await self._ask_for_words()
        return read_answer(asked.outcome.option_id, request, self._save_rule)

    async def _ask_for_words(self) -> Answer:
        if not self._editor.abilities.shows_forms:
            self._await_words()
            return WORDS_FOLLOW
        from acp.schema import ElicitationFormSessionMode, ElicitationSchema, ElicitationStringPropertySchema

        field = ElicitationStringPropertySchema(type="string", title=QUESTION)
        form = ElicitationSchema(properties={"words": field}, required=["words"])
        mode = ElicitationFormSessionMode(session_id=self._session_id, requested_schema=form)
        reply = await self._editor.client.create_elicitation(QUESTION, mode)
        words: object = None
        if isinstance(reply, AcceptElicitationResponse):
            words = (reply.content or {}).get("words")
        if not isinstance(words, str) or not words.strip():
            return DENIED
        return refuse_with(words.strip())


def list_options(request: Request) -> list[PermissionOption]:
    """The answers that this question has. Those that make a rule are there where a rule can be made."""
    rows = [(ONCE, "Yes", "allow_once")]
    if request.call.name == SUBMIT_PLAN:
        rows = [(ONCE, "Accept the plan, and go on in mode edits", "allow_once")]
    if request.rule:
        entry = json.loads(request.rule)
        entry.pop("exact", None)  # an option shows the command itself
        rule = make_title(describe_rule(entry))
        rows.append((SESSION, f"Yes, and in this session: {rule}", "allow_always"))
        if request.can_save:
            rows.append((ALWAYS, f"Yes, and always: {rule}", "allow_always"))
    rows += [(grant, WIDER[grant], "allow_once") for grant in request.wider if grant in WIDER]
    rows += [(NO, "No", "reject_once"), (NO_WITH_WORDS, "No, and say what to do instead", "reject_once")]
    return [PermissionOption(option_id=name, name=text, kind=kind) for name, text, kind in rows]  # type: ignore[arg-type, unused-ignore]


def read_answer(chosen: str, request: Request, save_rule: Callable[[dict[str, Any]], None]) -> Answer:
    """The answer of an option. What is no option of the question is a no."""
    if chosen not in [option.option_id for option in list_options(request)]:
        return DENIED
    if chosen == ONCE:
        return Answer(True)
    for grant in request.wider:
        if chosen == grant:
            return Answer(True, access=grant)
    if chosen == SESSION:
        return Answer(True, for_chat=True)
    if chosen != ALWAYS:
        return DENIED
    try:
        save_rule(json.loads(request.rule))
    except (OSError, ValueError):  # it cannot be kept, so it holds for this session
        return Answer(True, for_chat=True)
    return Answer(True, always=True)


def describe_question(request: Request, updates: Updates) -> ToolCallUpdate:
    """The call with why it asks, and what helps to decide."""
    about = updates.describe(request.call)
    lines = [reveal(line, on_one_line=True) for line in (f"Asks because {request.reason}.", *request.reviews)]
    if request.access:
        lines.append(f"Access: {request.access}.")
    if request.advice:
        lines.append(sanitize(request.advice))
    if request.call.name == SUBMIT_PLAN:
        lines = [sanitize(str(request.call.arguments.get("plan", "")))]
    elif request.preview and not about.get("content"):
        lines.append(fence(reveal(request.preview)))
    elif not about.get("content"):
        lines.append(fence(reveal(json.dumps(dict(request.call.arguments), indent=2, ensure_ascii=False))))
    text = TextContentBlock(type="text", text="\n\n".join(lines))
    content = [*about.pop("content", ()), ContentToolCallContent(type="content", content=text)]
    return ToolCallUpdate(**about, content=content, status="pending")
