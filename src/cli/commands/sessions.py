"""`vllm-bot sessions`: past conversations; needs no server."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from ...app.factory import Factory
from ...errors import BotError
from ...security.text.sanitize import sanitize
from ...session.export import FORMATS, SavedConversation, describe_session, render_markdown, replace_file
from ...session.replay import replay
from ..arguments import parse_number
from ..chat.slash.history import format_sessions
from ..load_settings import load_settings

OLD_DAYS = 90.0


def add_sessions_options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action=_list)
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    rows = parser.add_subparsers(metavar="ACTION", title="actions")

    search = rows.add_parser("search", help="find conversations that contain all these words")
    search.add_argument("words", nargs="+")
    search.set_defaults(action=_search)

    show = rows.add_parser("show", help="print one conversation")
    show.add_argument("session", nargs="?", default="", help="its id or name (default: the last one in this folder)")
    show.set_defaults(action=_show)

    export = rows.add_parser("export", help="save one conversation as Markdown, JSON or HTML")
    export.add_argument("session", nargs="?", default="", help="its id or name (default: the last one in this folder)")
    export.add_argument("--format", choices=tuple(FORMATS), default="md")
    export.add_argument("-o", "--out", metavar="FILE", help="default: standard output")
    export.set_defaults(action=_export)

    delete = rows.add_parser("delete", help="delete conversations and their saved file contents")
    delete.add_argument("sessions", nargs="+", metavar="SESSION", help="its whole id or name")
    delete.set_defaults(action=_delete)

    clean = rows.add_parser("clean", help="delete old conversations that have no name")
    clean.add_argument(
        "--days",
        type=parse_number(float, 0),
        default=OLD_DAYS,
        help=f"unused for this many days (default: {OLD_DAYS:g})",
    )
    clean.set_defaults(action=_clean)


def run_sessions(options: argparse.Namespace) -> int:
    """Raises BotError."""
    return int(options.action(options, Factory(load_settings(options))))


def _list(options: argparse.Namespace, factory: Factory) -> int:
    store = factory.make_store()
    sessions = store.list_sessions()
    if options.json:
        for each in sessions:
            optional = "one_shot", "problem"
            print(json.dumps({name: value for name, value in each._asdict().items() if value or name not in optional}))
        return 0
    for line in format_sessions(sessions, str(factory.settings.root)):
        print(line.strip())
    if not sessions:
        print(f"There is no session yet; they are saved in {store.folder}.", file=sys.stderr)
    return 0


def _search(options: argparse.Namespace, factory: Factory) -> int:
    matches = factory.make_store().search(" ".join(options.words))
    for each in matches:
        if options.json:
            print(json.dumps({"session": each.session.id, "speaker": each.speaker, "snippet": each.snippet}))
            continue
        when = time.strftime("%Y-%m-%d", time.localtime(each.session.used))
        print(sanitize(f"{each.session.id}  {when}  {each.speaker}: {' '.join(each.snippet.split())}"))
    if matches:
        return 0
    print("No session contains all these words; `vllm-bot sessions` lists them.", file=sys.stderr)
    return 1


def _show(options: argparse.Namespace, factory: Factory) -> int:
    print(render_markdown(_find_conversation(options.session, factory), factory.clean), end="")
    return 0


def _export(options: argparse.Namespace, factory: Factory) -> int:
    text = FORMATS[options.format](_find_conversation(options.session, factory), factory.clean)
    if options.out is None:
        print(text, end="")
        return 0
    try:
        replace_file(Path(options.out), text)
    except OSError as error:
        raise BotError(f"{options.out}: {error.strerror or error}") from error
    return 0


def _find_conversation(name_or_id: str, factory: Factory) -> SavedConversation:
    store = factory.make_store()
    return read_conversation(store.journal_path(store.find(name_or_id, factory.settings.root)))


def read_conversation(journal: Path) -> SavedConversation:
    """The conversation that a journal holds. Raises BotError."""
    replayed, session = replay(journal, whole=True), journal.stem
    for problem in replayed.problems:
        print(f"! {session}: {sanitize(problem)}", file=sys.stderr)
    return describe_session(session, replayed.state, replayed.messages)


def _delete(options: argparse.Namespace, factory: Factory) -> int:
    store = factory.make_store()
    for session in [store.find(each, whole=True) for each in options.sessions]:  # a typo deletes nothing
        store.delete(session)
        print(f"deleted {session}")
    return 0


def _clean(options: argparse.Namespace, factory: Factory) -> int:
    for session in factory.make_store().clean(options.days):
        print(f"deleted {session}")
    return 0
