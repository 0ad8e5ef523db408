"""Commands that change what happens next: model, path, new conversation, what is shown."""

from __future__ import annotations

from collections.abc import Iterable

from ....security.text.sanitize import sanitize
from ..state import Command, State

DEBUG_LEVELS = {"off": 0, "on": 1, "bodies": 2}
THINKING = {
    "fold": "thoughts are shown as they come, then folded to one line; /expand shows the last one",
    "show": "thoughts are shown in full",
    "hide": "thoughts are not shown",
}


def _leave(state: State, _: str) -> None:
    state.left = True


def _new(state: State, _: str) -> None:
    state.begin_anew()
    state.screen.say("New conversation.")


def _clear(state: State, _: str) -> None:
    state.screen.wipe()
    _new(state, "")


def _model(state: State, name: str) -> None:
    """Show the model, or switch to another one."""
    if not name:
        state.screen.say(f"  {sanitize(state.model_name)}; /models lists what the server serves, /model NAME switches")
        return
    served = state.factory.connections.list_models()
    if name not in served:
        state.screen.say(f"The server does not serve {sanitize(name)}. It serves: {sanitize(', '.join(served))}.")
        return
    state.switch(name)
    state.screen.say(f"  {sanitize(name)} now answers.")


def _model_names(state: State) -> Iterable[str]:
    return state.settings.vllm.available_models or ((state.model_name,) if state.model_name else ())


def _path(state: State, mode: str) -> None:
    """Show the call path and why it is used, or switch to another one."""
    from ....model import MODES

    path = state.bot().model.path
    if chosen := next((each for each in MODES if each == mode), None):
        path.choose(chosen)
    elif mode:
        state.screen.say(f"There is no path {sanitize(mode)}. Choose one of {', '.join(MODES)}.")
        return
    state.screen.say(f"  {path.mode}: {path.reason}")


def _path_names(_: State) -> Iterable[str]:
    from ....model import MODES

    return MODES


def _debug(state: State, level: str) -> None:
    if level and level not in DEBUG_LEVELS:
        state.screen.say(f"There is no level {sanitize(level)}. Choose one of {', '.join(DEBUG_LEVELS)}.")
        return
    if level:
        state.debug.level = DEBUG_LEVELS[level]
    name = next(name for name, number in reversed(DEBUG_LEVELS.items()) if state.debug.level >= number)
    state.screen.say(f"  debug is {name}")


def _thinking(state: State, mode: str) -> None:
    if mode and mode not in THINKING:
        state.screen.say(f"There is no mode {sanitize(mode)}. Choose one of {', '.join(THINKING)}.")
        return
    screen = state.screen
    screen.thinking = mode or screen.thinking
    screen.say(f"  {screen.thinking}: {THINKING[screen.thinking]}")


def _edit(state: State, words: str) -> None:
    """Write the next message in an editor; an empty one is not sent, and one left as it was is in the prompt again."""
    from ..input.editor import edit_text

    before = words or state.draft
    text = edit_text(before)
    state.draft = text if text == before else ""
    if text.strip() and not state.draft:
        state.questions.append(text)


STEER = (
    Command("/exit", "leave the chat", _leave, aliases=("/quit",)),
    Command("/new", "start a new conversation; this one is kept", _new, aliases=("/reset",)),
    Command("/clear", "start a new conversation on an empty screen", _clear),
    Command("/model", "show the model, or switch to another one", _model, "[NAME]", complete=_model_names),
    Command("/path", "show how tools are called, or change it", _path, "[PATH]", complete=_path_names),
    Command("/edit", "write the next message in your editor", _edit, "[TEXT]", opens_editor=True),
    Command(
        "/thinking",
        "choose how the model's thoughts are shown",
        _thinking,
        "[fold|show|hide]",
        complete=lambda _: THINKING,
    ),
    Command("/debug", "choose what is traced", _debug, "[off|on|bodies]", complete=lambda _: DEBUG_LEVELS),
)
