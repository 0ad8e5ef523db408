"""Whether a line may run what a rule denies; in doubt it may, so that nothing is missed."""

from __future__ import annotations

import pytest

from src.security.shell.deny import can_run, list_written_files

PUSHES = """\
git push
git -C x push
git --no-pager push origin main
g\\it pu"sh"
/usr/bin/git push
GIT push
env A=1 git push
echo x | xargs git push
nice -n 5 timeout 5 git push
sudo sh -c "nice git push"
bash -c 'ls; git push'
eval 'git push'
eval git push
find . -exec git push \\;
find . -exec sh -c 'git push' \\;
(cd a && git push)
if true; then git push; fi
f() { git push; }; f
f() { git "$@"; }; f push
echo $(git push)
cat <(git push)
G=git; $G push
git $x
git {push,x}
git p?sh
$(echo git) push
echo 'git push' | bash
bash -s
[[ -n $(git push) ]]
! git push
time git push
git push &
git push > log
sh -c 'ls;git	push'
sh -c '(git push)'
env '-Sgit push'
env --split-string='git push'
coproc git push
alias p='git push'; p
git -c alias.p=push p
git -c Alias.p='!git push' p
git -c "$setting" p
""".splitlines()
OTHERS = """\
ls
git log push
git stash push
git commit -m push
git commit -am "$message"
git log "$x"
echo 'git push'
grep -r 'git push' .
find . -name "$x" -exec rm {} \\;
bash build.sh
env git pull
""".splitlines()


@pytest.mark.parametrize(
    "line", [*PUSHES, "git \\\n push", "cat <<E\n$(git push)\nE", "bash <<E\ngit push\nE", "git push\n'"]
)
def test_what_might_be_denied_is_found(line):
    assert can_run(line, ("git", "push"))


@pytest.mark.parametrize("line", OTHERS)
def test_what_cannot_be_is_not(line):
    assert not can_run(line, ("git", "push"))


@pytest.mark.parametrize(
    "line", ["env " * 2400 + "x", "eval " * 1900 + "x", "$(" * 4000, "x" * 1_000_000, "git \0push", "\ud800"]
)
def test_what_is_too_much_to_look_at_might_be_anything(line):
    assert can_run(line, ("git", "push"))


def test_files_that_redirections_write_are_named():
    assert set(list_written_files("ls 2>&1 >a >>'b c' <d; (echo >$e)")) == {"a", "b c", "1", None}


@pytest.mark.parametrize(
    "line",
    [
        "cd .git && ls >hooks/x",
        "cd .git; cd hooks; ls >x",
        "(cd .git && ls) >.git/hooks/x",
        "bash -c 'ls >.git/hooks/x'",
    ],
)
def test_also_behind_a_change_of_folders_and_in_a_line_for_a_shell(line):
    assert ".git/hooks/x" in set(list_written_files(line))
