"""Whether a line runs what a rule is about; one that cannot be read whole is not clear of it."""

from __future__ import annotations

import pytest

from src.security.shell.match_line import match_line
from tests.each import check_each, check_rows

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
git >&-push
>&-git push
echo x >&'$(git push)'
git &\\n> log push
cat <<\\n-'E'\n\tE\ngit push\n-E
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
git commit -am 'push it'
echo 'git push'
grep -r 'git push' .
timeout 60 pytest -q && git pull
cat a.txt | xargs -n1 wc -l > out
(cd src && make -j4) 2>&1 | tail
LC_ALL=C sort a.txt | uniq -c
find . -name '*.py' -type f
find . -type f -exec ls -l {} +
find . -name a -exec grep -l 'git push' {} \\; -print
time pytest -q
python3 --version
npx tsc --noEmit
sort -u --reverse a.txt
sed -i 's/a/b/' a.txt
awk 'NR > 5 { print $1 }' a.txt
git config user.name
""".splitlines()
UNREADABLE = """\
git commit -am "$message"
find . -name x -exec sh {} \\;
find . -exec {} x \\;
printf -v PATH .
printf %n PATH
printf %-5lln PATH
test -v 'GROUPS[PATH=1]'
/usr/bin/../../ws/ls
tox exec -- sh x
ctest --test-command sh
pytest --trace
bash build.sh
./build.sh
env git pull
git -c core.fsmonitor=x status
git rebase -x x HEAD~1
git clone -u ./x . y
git submodule foreach x
mapfile -C 'x' -c1 y <a.txt
printf -v 'a[$(x)]' y
BASH_ENV=x ls
GIT_EXTERNAL_DIFF=x git diff
PATH=.:$PATH ls
python3 -c 'x'
awk 'BEGIN{system("x")}'
sed 1e a.txt
sort --compress-program=x a.txt
ld.so /bin/x
vim -c '!x'
hash -p /bin/x ls
tar cf a.tar --to-command=x b
echo x | xargs -I{} {} y
ls | sh
ls | dash -V
ls | ed --version
git config edit
find *
""".splitlines()


@check_each(
    line=[
        *(each.replace("\\n", "\n").replace("\\t", "\t") for each in PUSHES),
        "git \\\n push",
        "cat <<E\n$(git push)\nE",
        "bash <<E\ngit push\nE",
        "git push\n'",
    ]
)
def test_a_line_that_might_run_it_is_not_clear(line):
    assert match_line(line, ("git", "push")).verdict != "clear"


@check_rows("line", ["git push", "git -C x push", 'g\\it pu"sh"', "env git push", "to; git \\\n push", "$x git push"])
def test_one_that_names_it_matches(line):
    assert match_line(line, ("git", "push")).verdict == "matches"


@check_each(line=UNREADABLE)
def test_what_is_not_in_the_closed_list_cannot_be_read(line):
    assert match_line(line, ("git", "push")).verdict == "unreadable"


@check_each(line=OTHERS)
def test_what_does_something_else_is_clear(line):
    assert match_line(line, ("git", "push")).verdict == "clear"


@check_rows("line", ["env " * 2400 + "x", "eval " * 1900 + "x", "$(" * 4000, "x" * 100_000, "git \0push", "\ud800"])
def test_what_is_too_much_to_look_at_is_not_clear(line):
    assert match_line(line, ("git", "push")).verdict != "clear"


def test_the_words_of_a_project_program_may_run():
    assert match_line("make git push", ("git", "push")).verdict == "matches"
    assert match_line("make push", ("git", "push")).verdict == "clear"


@check_rows(
    "line, rule, verdict",
    [
        ("git --no-pager push", "git push", "matches"),
        ("git -C sub push", "git push", "matches"),
        ("git status", "git push", "clear"),
        ("git push origin", "git push", "matches"),
        ("git", "git push", "unreadable"),
        ("git log push", "git push", "clear"),
        ("git -C sub --no-pager log -1", "git log", "matches"),
        ("git show log", "git log", "clear"),
        ("git -C sub status", "git log", "clear"),
        ("git -P diff", "git log", "clear"),
    ],
)
def test_a_rule_of_two_words_skips_options_between_them_alone(line, rule, verdict):
    assert match_line(line, rule.split()).verdict == verdict


@check_rows(
    "line, rule, verdict",
    [
        ("git push origin --force", "git push --force", "matches"),
        ("git push --forc", "git push --force", "unreadable"),
        ("git push -f", "git push --force", "unreadable"),
        ("git push origin main", "git push --force", "clear"),
        ("git add --force x", "git push --force", "clear"),
        ("rm -v -fr x", "rm -rf", "matches"),
        ("rm --recursive -f x", "rm -rf", "unreadable"),
        ("rm -r x", "rm -rf", "clear"),
        ("rm -Rf x", "rm -rf", "unreadable"),
        ("rm -R -f x", "rm -rf", "unreadable"),
    ],
)
def test_an_option_of_a_rule_counts_wherever_it_stands_and_by_other_names(line, rule, verdict):
    assert match_line(line, rule.split()).verdict == verdict


@pytest.mark.parametrize("line", ["timeout 5 ls", "find . -exec timeout 5 ls {} +", "xargs timeout 5 ls < a"])
def test_a_program_before_another_matches_as_well(line):
    assert match_line(line, ["timeout"]).verdict == "matches"


@pytest.mark.parametrize(
    ("line", "rule"), [("pip3 install x", "pip install"), ("npm i x", "npm install"), ("python a.py", "python3")]
)
def test_other_versions_and_short_names_count_as_well(line, rule):
    assert match_line(line, rule.split()).verdict == "matches"


@check_rows("line", ["cat << E\nx", "ls \u200b", "xargs", "timeout 5"])
def test_a_line_without_its_end_or_its_command_cannot_be_read(line):
    assert match_line(line, ["touch"]).verdict == "unreadable"
