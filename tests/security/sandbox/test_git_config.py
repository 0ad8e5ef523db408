"""What stays of a git configuration that a command wrote."""

from __future__ import annotations

from src.security.sandbox.git_config import SafeConfig, clean_config, find_value
from tests.each import check_rows

CLONED = """\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
# mine
[remote "origin"]
\turl = https://example.com/x.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
\tremote = origin
\tmerge = refs/heads/main
[user]
\tname = A B
"""


def test_a_configuration_that_runs_nothing_stays_as_it_is():
    assert clean_config(CLONED) == SafeConfig(CLONED + "\n", ())


@check_rows(
    "line, name",
    [
        ("[core]\nfsmonitor = x", "core.fsmonitor"),
        ("[Core]\n  FSMonitor=x", "core.fsmonitor"),
        ("[core]\nhooksPath = x", "core.hookspath"),
        ("[core]\nsshCommand = x", "core.sshcommand"),
        ("[core]\npager", "core.pager"),
        ('[filter "x"]\nclean = x', "filter.x.clean"),
        ('[diff "x"]\ntextconv = x', "diff.x.textconv"),
        ("[diff]\nexternal = x", "diff.external"),
        ("[alias]\nst = !x", "alias.st"),
        ("[include]\npath = x", "include.path"),
        ('[includeIf "gitdir:/"]\npath = x', "includeif.gitdir:/.path"),
        ('[remote "o"]\nurl = ext::sh -c x', "remote.o.url"),
        ('[remote "o"]\nurl = ext:":"sh -c x', "remote.o.url"),
        ('[core]\nworktree = a/"../../../"x', "core.worktree"),
        ("[core]\nworktree = ../x ;/../a", "core.worktree"),
        ("[core]\nwhitespace = a\\\r\n[advice]\nfsmonitor = y", "whitespace = a\\"),
        ('[remote "o"]\nuploadpack = x', "remote.o.uploadpack"),
        ('[submodule "s"]\nupdate = !x', "submodule.s.update"),
        ("[credential]\nhelper = x", "credential.helper"),
        ("[gpg]\nprogram = x", "gpg.program"),
        ("[core] fsmonitor = x", "[core] fsmonitor = x"),
        ("[user]\nname = a\\\n[core]", "name = a\\"),
        ("[a]b]", "[a]b]"),
    ],
)
def test_what_runs_something_or_is_not_of_the_usual_form_is_dropped(line, name):
    cleaned = clean_config(f"{CLONED}{line}\n")
    assert name in cleaned.dropped
    assert cleaned.text.count("x") <= CLONED.count("x") + line.partition("]")[0].count("x")


def test_what_was_there_before_is_trusted():
    before = "[core]\n\tfsmonitor = mine\n"
    assert clean_config(before + "\tbare = false\n", before).dropped == ()
    assert clean_config(before.replace("mine", "evil"), before).dropped == ("core.fsmonitor",)


def test_a_worktree_stays_where_it_is_in_the_workspace():
    text = '[core]\nworktree = "../x"\n'
    assert clean_config(text, is_inside="../x".__eq__).text.startswith(text)
    assert clean_config(text, is_inside="../y".__eq__) == SafeConfig("[core]\n\n", ("core.worktree",))
    assert clean_config(text, trusted=text).dropped == ()


def test_the_last_value_counts():
    assert find_value('[core]\nhooksPath = a\n[core]\nhooksPath = "b"\n', "core.hookspath") == "b"
    assert find_value("[core]\n", "core.hookspath") is None
