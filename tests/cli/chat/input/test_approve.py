import json

import pytest

from src.cli.chat.input.approve import TerminalApprover
from src.cli.render.colours import DARK, NONE
from src.errors import BotError
from src.security.permissions.approval import Answer, CannotRun, Request, refuse_with
from src.types.messages import ToolCall
from tests.each import check_rows

RULE = '{"tool": "exec", "action": "allow", "command": "ls"}'


class Asked:
    """An approver whose user answers these, one a question; an exception in their place is raised."""

    def __init__(self, *answers, edit=None, remember=None, run_command=None, size=(0, 0), **fields):
        self.answers, self.shown, self.questions = list(answers), "", []
        call = ToolCall("c", fields.pop("name", "exec"), fields.pop("arguments", {"command": "ls"}))
        revise = fields.pop("revise", lambda call: Request(call, "it changes files", revise))
        colours = fields.pop("colours", NONE)
        terminal = TerminalApprover(
            self._ask,
            self._show,
            edit=edit,
            remember=remember,
            run_command=run_command,
            get_size=lambda: size,
            find_colours=lambda: colours,
        )
        self.answer = terminal.approve(Request(call, "it changes files", revise, **fields))

    def _ask(self, question, default):
        self.questions.append((question.strip(), default))
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _show(self, text):
        self.shown += f"{text}\n"


@check_rows("said, goes_on", [("", True), ("Y", True), ("no", False), (EOFError(), False)])
def test_at_a_limit_of_turns_enter_is_a_yes_and_what_is_unclear_is_asked_again(said, goes_on):
    answers = ["what?", said]

    def ask(_question, _default):
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    assert TerminalApprover(ask, lambda _text: None).may_go_on(10) is goes_on
    assert answers == []


@check_rows("said", ["y", "Y", "yes", " yes "])
def test_yes(said):
    assert Asked(said).answer == Answer(True)


@check_rows("said", ["", "n", "no", "NO", EOFError()])
def test_no(said):
    asked = Asked(said)
    assert asked.answer.allowed is False
    assert "the user said no" in asked.answer.message


@check_rows("said", ["ok", "yep", "sure", "yy", "yes please", "use ls -a", "x", "nope", "c", "a", "w"])
def test_other_words_are_neither_an_answer_nor_feedback_and_are_asked_about_again(said):
    asked = Asked(said, "y")
    assert asked.answer == Answer(True)
    assert f"'{said}' is not one of the answers" in asked.shown


@check_rows("said", ["n use ls -a", "no, use ls -a", ": use ls -a", ":use ls -a", "N: use ls -a"])
def test_words_behind_n_or_a_colon_are_for_the_model(said):
    assert Asked(said).answer == refuse_with("use ls -a")


def test_a_line_that_begins_with_a_slash_is_a_command_and_the_question_stays():
    ran = []
    asked = Asked("/mode auto", "y", run_command=ran.append)
    assert (ran, asked.answer.allowed) == (["/mode auto"], True)


def test_always_shows_the_rule_that_it_would_write():
    asked = Asked("a", rule="exec: git status")
    assert asked.answer == Answer(True, always=True)
    assert "a: always; this adds the rule exec: git status" in asked.shown


def test_a_rule_may_hold_for_this_chat_only():
    kept = []
    assert Asked("c", rule=RULE, remember=kept.append).answer == Answer(True, for_chat=True)
    assert kept == []


@pytest.mark.parametrize(("said", "access"), [("w", "network"), ("o", "outside")])
def test_a_command_may_be_given_more_once(said, access):
    asked = Asked(said, access="write", wider=("network", "outside"), rule=RULE)
    assert asked.answer == Answer(True, access=access)


def test_the_access_of_a_command_is_shown_and_how_there_would_be_fewer_questions():
    shown = Asked("n", access="write", wider=("outside",)).shown
    assert "    access: write: may change the workspace, no network\n" in shown
    shown = Asked("n", access="write", advice="No sandbox works here.").shown
    assert "    access: write, which nothing enforces here\n" in shown
    assert "  No sandbox works here.\n" in shown


def test_nothing_is_cut_within_a_word_where_the_terminal_is_narrow():
    asked = Asked("n", arguments={"command": "git commit -m 'Fix the addition of numbers'"}, rule=RULE, size=(40, 24))
    assert max(map(len, asked.shown.splitlines())) < 40
    assert "    command: git commit -m 'Fix the \n    : addition of numbers'\n" in asked.shown


def test_where_there_is_no_rule_there_is_no_always():
    assert "always" not in Asked("n").shown


def test_ctrl_c_stops_more_than_the_question():
    with pytest.raises(KeyboardInterrupt):
        Asked(KeyboardInterrupt())


class TestWhatIsShown:
    def test_the_whole_command_with_what_a_terminal_would_hide(self):
        command = "ls" + " " * 300 + "; rm -rf x\x1b[2K\u202e"
        shown = Asked("n", arguments={"command": command}).shown
        assert " " * 300 + "; rm -rf x\\x1b[2K\\u202e" in shown
        assert "exec wants to run (it changes files)" in shown

    def test_the_name_of_a_tool_or_of_an_argument_begins_no_line_and_hides_nothing(self):
        shown = Asked("n", name="ls\r  access: read\n\x08", arguments={"a\nb\r\u202e": "c"}).shown
        assert r'  "ls\r  access: read\n\b" wants to run' in shown
        assert r'    "a\nb\r\u202e": c' in shown

    def test_an_argument_named_like_a_line_of_ours_is_in_quotation_marks(self):
        shown = Asked("n", name="send", arguments={"access": "read: changes nothing, no network"}).shown
        assert '    "access": read: changes nothing, no network\n' in shown

    def test_only_a_command_has_its_access_in_a_line_of_ours_instead_of_an_argument(self):
        shown = Asked("n", name="own_tool", arguments={"access": "outside"}, access="write", wider=("outside",)).shown
        assert '    "access": outside\n    access: write: may change' in shown
        assert "outside" not in Asked("n", arguments={"command": "ls", "access": "outside"}, access="write").shown

    def test_a_payload_behind_a_screen_of_blanks_is_beside_the_rest(self):
        shown = Asked("n", arguments={"command": "ls" + " " * 12_000 + "; rm x"}).shown
        assert "    command: ls\\x20{12000}; rm x\n" in shown

    def test_every_line_of_a_long_text_marked_as_part_of_it(self):
        arguments = {"path": "a", "content": "one\nRun it? [y/N] y\nthree"}
        shown = Asked("n", arguments=arguments).shown
        assert "    | one\n    | Run it? [y/N] y\n    | three\n" in shown

    def test_how_many_lines_are_above_the_screen_stands_last(self):
        shown = Asked("n", arguments={"content": "x\n" * 50}, size=(80, 24)).shown
        assert shown.count("    | x") == 50
        assert shown.endswith("what to do instead\n  (34 lines are above: scroll up)\n")

    def test_a_mistyped_answer_leaves_the_number_of_hidden_lines_last(self):
        shown = Asked("what?", "n", arguments={"content": "x\n" * 50}, size=(80, 24)).shown
        assert shown.endswith("colon.\n  (38 lines are above: scroll up)\n")

    def test_on_a_screen_that_holds_it_all_nothing_is_said_about_lines(self):
        assert "above" not in Asked("n", arguments={"content": "x\n" * 50}, size=(80, 60)).shown

    def test_the_question_stands_again_below_what_a_command_of_the_chat_shows(self):
        asked = Asked("/jobs 1", "n", run_command=lambda _line: None)
        assert asked.shown.count("    command: ls\n") == 2

    def test_what_would_change_in_place_of_the_texts_it_is_made_of(self):
        diff = "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-old\n+new\x1b[2J\n"
        shown = Asked("n", name="edit", arguments={"path": "a.txt", "oldText": "o", "newText": "n"}, preview=diff).shown
        assert "    | -old\n    | +new\\x1b[2J\n" in shown
        assert "path: a.txt" in shown
        assert "oldText" not in shown

    def test_in_colour_where_the_terminal_has_it(self):
        shown = Asked("n", preview="-old\n+new\n same", colours=DARK).shown
        assert "    | \x1b[31m-old\x1b[0m\n" in shown
        assert "    | \x1b[32m+new\x1b[0m\n" in shown

    def test_the_votes_of_the_reviewers(self):
        assert "reviewed: qwen: APPROVE, it only reads" in Asked("n", reviews=("qwen: APPROVE, it only reads",)).shown


class TestChanges:
    def test_a_command_is_changed_in_place_shown_again_and_asked_about_again(self):
        asked = Asked("e", "ls -a", "y")
        assert asked.answer == Answer(True, arguments={"command": "ls -a"})
        assert asked.questions[1] == ("Change it to:", "ls")
        assert "exec as you changed it:\n    command: ls -a" in asked.shown

    @pytest.mark.parametrize(("name", "changed"), [("write", "content"), ("edit", "newText")])
    def test_of_an_edit_the_new_text_itself_is_opened(self, name, changed):
        opened = []

        def edit(text, file):
            opened.append((text, file))
            return "new"

        asked = Asked("e", "y", name=name, arguments={"path": "src/a.py", changed: "old\n\n"}, edit=edit)
        assert opened == [("old\n\n", "a.py")]
        assert asked.answer.arguments == {"path": "src/a.py", changed: "new\n\n"}

    def test_a_command_with_what_a_terminal_would_obey_is_changed_in_the_editor(self):
        opened = []

        def edit(text, file):
            opened.append((text, file))
            return "ls"

        assert Asked("e", "y", arguments={"command": "ls\u202e"}, edit=edit).answer.arguments == {"command": "ls"}
        assert opened == [("ls\u202e", "command.sh")]

    def test_other_arguments_are_changed_as_json_in_an_editor(self):
        edit = lambda text, file: json.dumps({**json.loads(text), "to": file})  # noqa: E731
        asked = Asked("e", "y", name="send", arguments={"to": "you"}, edit=edit)
        assert asked.answer.arguments == {"to": "arguments.json"}

    def test_a_changed_call_may_still_be_refused(self):
        assert Asked("e", "rm x", "n").answer.allowed is False

    def test_no_rule_is_made_of_a_changed_call(self):
        assert Asked("e", "ls -a", "a", "n", rule="exec: ls").answer.allowed is False

    def test_what_the_changed_call_would_do_is_shown_like_the_first(self):
        def revise(call):
            return Request(call, "it changes files", revise, f"-old\n+{call.arguments['content']}")

        arguments = {"path": "a", "content": "old"}
        asked = Asked("e", "y", name="write", arguments=arguments, edit=lambda *_: "new", revise=revise)
        assert "write as you changed it:\n    path: a\n\n    | -old\n    | +new\n" in asked.shown

    def test_a_change_that_can_never_run_is_refused_at_once_and_asked_about_again(self):
        def refuse(_):
            raise CannotRun("a rule denies it")

        asked = Asked("e", "rm x", "y", revise=refuse)
        assert asked.answer == Answer(True)
        assert "It cannot run like that: a rule denies it" in asked.shown

    def test_a_call_changed_twice_starts_from_the_first_change(self):
        asked = Asked("e", "ls -a", "e", "ls -al", "y")
        assert asked.questions[3] == ("Change it to:", "ls -a")
        assert asked.answer.arguments == {"command": "ls -al"}

    def test_without_an_editor_nothing_changes(self):
        def edit(*_):
            raise BotError("No editor found.")

        asked = Asked("e", "y", name="write", arguments={"path": "a"}, edit=edit)
        assert asked.answer == Answer(True)
        assert "No editor found.\n  Nothing was changed." in asked.shown

    @pytest.mark.parametrize("text", ["{", "[1]"])
    def test_what_cannot_be_read_changes_nothing(self, text):
        asked = Asked("e", "y", name="send", arguments={"to": "you"}, edit=lambda *_: text)
        assert asked.answer == Answer(True)
        assert "Nothing was changed" in asked.shown


class TestAlways:
    def test_the_rule_is_kept_for_chats_to_come(self):
        kept = []
        Asked("a", rule=RULE, remember=kept.append)
        assert kept == [json.loads(RULE)]

    def test_a_rule_that_cannot_be_saved_is_reported_and_the_call_runs(self):
        def full(_):
            raise OSError("No space left on device")

        asked = Asked("a", rule=RULE, remember=full)
        assert asked.answer.always
        assert "could not be saved, so it holds for this chat only: No space left" in asked.shown

    def test_nothing_else_is_kept(self):
        kept = []
        for said in ("y", "n", ": maybe"):
            Asked(said, rule=RULE, remember=kept.append)
        assert kept == []


@check_rows(
    "rule, shown",
    [
        ('{"tool": "edit", "action": "allow", "path": "/a.py"}', "adds the rule edit:/a.py\n"),
        ('{"tool": "exec", "action": "allow", "command": "git status"}', "adds the rule exec:git status\n"),
        (
            '{"tool": "exec", "action": "allow", "command": "make", "exact": true}',
            "adds the rule exec: this exact command\n",
        ),
        (
            '{"tool": "exec", "action": "allow", "command": "git push", "access": "network"}',
            "adds the rule exec:git push (access=network)\n",
        ),
        ('{"tool": "todo_write", "action": "allow"}', "adds the rule todo_write\n"),
        ('{"tool": "edit", "more": 1}', 'adds the rule {"tool": "edit", "more": 1}\n'),
        ('{"tool": "exec", "command": "a\\u202eb"}', "adds the rule exec:a\\u202eb\n"),
        ('{"tool": "edit", "path": "/a\\n  Run it?"}', "adds the rule edit:/a\\n  Run it?\n"),
        (f'{{"tool": "edit", "path": "/{"x" * 99}"}}', f"adds the rule edit:/{'x' * 51}...\n"),
    ],
)
def test_a_rule_is_shown_in_short_on_one_line(rule, shown):
    assert shown in Asked("n", rule=rule).shown


def test_all_edits_of_the_chat_are_an_answer_where_the_mode_lets_the_call_pass():
    assert Asked("m", mode="edits", name="write", arguments={"path": "a"}).answer == Answer(True, mode="edits")
    assert "'m' is not one of the answers" in Asked("m", "n").shown


def test_a_rule_that_may_not_be_kept_has_no_key_for_it():
    asked = Asked("a", "c", rule=RULE, can_save=False)
    assert asked.answer == Answer(True, for_chat=True)
    assert "a: always" not in asked.shown
    assert "c: in this chat; this adds the rule exec:ls" in asked.shown


def test_the_keys_are_explained_at_the_first_question_and_when_asked_for():
    shown = []
    answers = ["y", "?", "n"]
    terminal = TerminalApprover(lambda _question, _default: answers.pop(0), shown.append)
    request = Request(ToolCall("c", "exec", {"command": "ls"}), "it runs", lambda call: request, rule=RULE)
    terminal.approve(request)
    terminal.approve(request)
    first, second, explained = shown
    assert "y: once" in first
    assert "y: once" not in second
    assert "this adds the rule exec:ls" in second
    assert "y c n e, n or a colon and words; ? explains them" in second
    assert explained == first
