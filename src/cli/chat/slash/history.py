"""Commands on conversations: undo, retry, diff, resume, rename, fork, export, compact."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Sequence

from ....app.changes import explain_missing, pair_writes, read_now
from ....app.undo import (
    RISKY,
    describe_nothing,
    describe_redone,
    describe_undone,
    list_risky_calls,
    make_relative,
    make_restorer,
    parse_count,
    shorten,
)
from ....errors import BotError
from ....security.text.sanitize import sanitize
from ....session.export import FORMATS, describe_session, write_file
from ....session.index import Summary
from ....session.replay import replay
from ....session.session import Undone
from ....session.snapshots import RestoreFile
from ....session.state import Write
from ....tools.fs.text_files import DISK
from ....types.events import Notice
from ....types.file_names import escape_name
from ....types.messages import Message
from ...render.diff import draw_file_diff
from ...render.plain import format_call
from ...render.words import count, fill
from ..resume import get_store, resume_session
from ..state import PickRow, State

MAX_SESSIONS = 10  # in a list
MAX_MATCHES = 50  # of messages, while a session is looked for


def format_sessions(sessions: Iterable[Summary], root: str = "") -> Iterable[str]:
    """Yield a line for each session."""
    for each in sessions:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.used))
        title = fill("! {}", each.problem) or shorten(each.title)
        _, noun = count(each.turns, "turn").split()
        name, place = fill("{}: ", sanitize(each.name)), _tell_place(each, root)
        yield f"  {each.id}  {when}  {each.turns:3} {noun:5}  {name}{title}{place}"


def _make_restorer(state: State) -> RestoreFile:
    return make_restorer(state.settings, DISK)


def run_undo(state: State, turns: str) -> None:
    """Undo the last turns; a question without an answer is no turn. Raises BotError."""
    wanted = parse_count(turns)
    if question := state.unanswered:
        state.unanswered = ""
        state.screen.say(f"That question got no answer, so there is nothing to undo: {shorten(question)}")
        state.screen.say("/undo again undoes the turn before it.")
        return
    for number in range(wanted):
        if (undone := state.session.undo(_make_restorer(state))) is None:
            state.screen.say(describe_nothing("undo", number))
            return
        _report_undo(state, undone)


def run_redo(state: State, turns: str) -> None:
    for number in range(parse_count(turns)):
        if (redone := state.session.redo(_make_restorer(state))) is None:
            state.screen.say(describe_nothing("redo", number))
            return
        _report_change(state, describe_redone(redone, state.settings.root))


def _report_change(state: State, told: str) -> None:
    """Tell the user that the conversation and its files were changed; what was counted of it is out of date."""
    state.last_usage = None
    if state.runtime:
        state.runtime.restore_todos(state.session)
    state.screen.say(told)


def _report_undo(state: State, undone: Undone) -> None:
    _report_change(state, describe_undone(undone, state.settings.root))
    is_held = state.workplace is not None and state.workplace.sandbox.is_enforcing
    if risky := list_risky_calls(state.settings, state.session, undone, is_held=is_held):
        calls = "\n".join(f"  {format_call(call)}" for call in risky)
        state.screen.draw(Notice(f"{RISKY}\n{calls}"))


def run_diff(state: State, word: str) -> None:
    """Show what has been changed in files, in one of the turns, or in one file. Raises BotError."""
    is_turn = word.isdecimal()
    nothing = "No file has been changed in this conversation."
    pairs = pair_writes(state.session.state.writes)
    if is_turn:
        pairs = pair_writes(state.session.state.list_writes(int(word)))
        nothing = "No file has been changed in that turn."
    elif word:
        pairs = [each for each in pairs if make_relative(each[0].path, state.settings.root) == word]
        nothing = f"{escape_name(word)} has not been changed."
    if not pairs:
        state.screen.say(nothing)
        return
    state.show_lines([line for each in pairs for line in _list_changes(state, *each, is_turn=is_turn)])


def _list_changes(state: State, first: Write, last: Write, *, is_turn: bool) -> list[str]:
    """How a file differs from what it was before the first write: after the last one of a turn, or now."""
    name = make_relative(first.path, state.settings.root)
    before, after = (state.session.read_content(each) for each in (first.before, last.after))
    if (first.before and before is None) or (is_turn and last.after and after is None):
        return [f"  {name}: {explain_missing(first)}"]
    if not is_turn:
        after = read_now(state.settings, first.path)
    lines = [*_list_modes(name, first, last), *draw_file_diff(name, before, after, state.screen.colours)]
    return lines or [f"  {name}: unchanged"]


def _list_modes(name: str, first: Write, last: Write) -> list[str]:
    """The line that tells another mode of a file."""
    modes = [each.mode for each in (first.before, last.after) if each and each.mode]
    if len(set(modes)) < 2:
        return []
    return [f"  {name}: mode {modes[0]:o} is now {modes[1]:o}"]


def run_resume(state: State, name_or_id: str) -> None:
    if name_or_id:
        resume_session(state, name_or_id)
    elif state.pick is None:
        run_sessions(state, "")
        state.screen.say("  Continue one with /resume ID or /resume NAME.")
    elif chosen := _pick_session(state, state.pick):
        resume_session(state, chosen)


def _pick_session(state: State, pick: PickRow) -> str | None:
    store, root = get_store(state), str(state.settings.root)
    lines = {each.id: _format_row(each, root) for each in _list_others(state) if not each.problem}
    if not lines:
        state.screen.say("  No other conversation found.")
        return None

    def search(typed: str) -> list[tuple[str, str]]:
        """Sessions whose line or id has all the words, then those whose messages have them."""
        words = typed.lower().split()
        rows = {key: line for key, line in lines.items() if all(word in f"{key} {line}".lower() for word in words)}
        if not words:
            return list(rows.items())
        for match in store.search(typed, MAX_MATCHES):
            key = match.session.id
            if key in lines and key not in rows:
                rows[key] = f"{lines[key]}  {match.speaker}: {shorten(match.snippet)}"
        return list(rows.items())

    return pick("Continue which conversation?", search)


def _format_row(session: Summary, root: str) -> str:
    """A session in the list that is picked from: what matters comes first, since a narrow terminal cuts the end."""
    used, today = time.localtime(session.used), time.localtime()
    when = time.strftime("%H:%M" if used[:3] == today[:3] else "%Y-%m-%d", used)
    label = sanitize(fill("{}: ", session.name) + session.title)
    return f"{when:10}  {shorten(label)}  {count(session.turns, 'turn')}{_tell_place(session, root)}"


def _tell_place(session: Summary, root: str) -> str:
    """Where it was held, unless that is here or not known."""
    if session.workspace in ("", root):
        return ""
    return f"  [{escape_name(session.workspace)}]"


def _list_others(state: State) -> list[Summary]:
    """All conversations but the own one, the last used first; after them the questions of -p. Raises BotError."""
    others = [each for each in get_store(state).list_sessions() if each.id != state.session.id]
    return sorted(others, key=lambda each: each.one_shot)


def run_sessions(state: State, words: str) -> None:
    """List the last sessions, or search all; those of -p come last, in a group of their own."""
    if words:
        matches = get_store(state).search(words, MAX_MATCHES)
        past = [each for each in matches if each.session.id != state.session.id][:MAX_SESSIONS]
        lines = [f"  {each.session.id}  {each.speaker}: {shorten(each.snippet)}" for each in past]
    else:
        root, others = str(state.settings.root), _list_others(state)
        groups = ([each for each in others if each.one_shot is one_shot][:MAX_SESSIONS] for one_shot in (False, True))
        chats, questions = (list(format_sessions(group, root)) for group in groups)
        if questions:
            questions.insert(0, "  Questions asked with -p:")
        lines = [*chats, *questions]
    state.screen.say("\n".join(lines) or "  No conversation found.")


def run_rename(state: State, name: str) -> None:
    if not name:
        state.screen.say(
            f"  {sanitize(state.session.state.name or state.session.id) or 'not saved'}; /rename NAME gives it a name"
        )
        return
    state.session.rename(name)
    state.screen.say(f"  Continue it later with --resume {sanitize(shlex.quote(name))}.")


def run_fork(state: State, _: str) -> None:
    old = state.session.id
    state.switch_session(state.session.fork(get_store(state).create_journal()))
    state.screen.say(f"  You are now in a copy; the original is {old}.")


def run_export(state: State, file: str) -> None:
    """Write the conversation to a file, in the format of its suffix."""
    session, path = state.session, state.settings.root / (file or f"{state.session.id or 'conversation'}.md")
    writer = FORMATS.get(path.suffix.lstrip("."))
    if writer is None:
        raise BotError(f"{path.name}: the name must end in one of .{', .'.join(FORMATS)}.")
    text = writer(describe_session(session.id, session.state, _read_all_messages(state)), state.factory.clean)
    try:
        write_file(path, text)
    except FileExistsError as error:
        raise BotError(f"{path} already exists.", "Use another name: /export FILE.") from error
    except OSError as error:
        raise BotError(f"{path}: {error.strerror or error}") from error
    state.screen.say(f"  {escape_name(path)}: {len(text):,} characters")


def _read_all_messages(state: State) -> Sequence[Message]:
    """Those of the conversation, also those that a summary has replaced, where it is saved."""
    path = state.session.path
    if path is None or not path.exists():
        return state.conversation
    return replay(path, whole=True).messages


def run_compact(state: State, hint: str) -> None:
    events = state.ensure_runtime().compact(state.session, hint)
    state.screen.say("Summarizing the conversation...")
    try:
        for event in events:
            state.screen.draw(event)
    except KeyboardInterrupt:
        state.screen.say("(stopped; nothing was summarized)")
    state.last_usage = None  # the last count no longer applies


def run_retry(state: State, _: str) -> None:
    """Ask the last question again; undo its turn first, including files, if it has one."""
    if state.unanswered:
        state.queue.insert(0, state.unanswered)
        return
    if not state.session.state.last_question:
        state.screen.say("There is no question to ask again; /redo brings back one that was undone.")
        return
    question = ""
    while not question and (undone := state.session.undo(_make_restorer(state))):  # a summary has no question
        _report_undo(state, undone)
        question = undone.question
    state.notes = [*state.asked_notes, *state.notes]
    state.queue.insert(0, question)


def complete_diff(state: State) -> Iterable[str]:
    return [make_relative(first.path, state.settings.root) for first, _ in pair_writes(state.session.state.writes)]


def complete_resume(state: State) -> Iterable[str]:
    return [each.name or each.id for each in _list_others(state)[: 2 * MAX_SESSIONS]]
