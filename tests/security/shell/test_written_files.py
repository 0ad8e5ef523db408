"""The files that redirections of a line write, wherever they stand and whatever folder the line has entered."""

from __future__ import annotations

import pytest

from src.security.shell.written_files import list_written_files
from tests.each import check_rows


def test_files_that_redirections_write_are_named():
    assert set(list_written_files("ls 2>&1 >a >>'b c' <d; (echo >$e)")) == {"a", "b c", None}


@check_rows(
    "line",
    [
        "cd .git && ls >hooks/x",
        "cd .git; cd hooks; ls >x",
        "(cd .git && ls) >.git/hooks/x",
        "bash -c 'ls >.git/hooks/x'",
    ],
)
def test_files_written_behind_cd_and_by_an_inner_shell_are_named(line):
    assert ".git/hooks/x" in set(list_written_files(line))


@check_rows("line", ["echo >.g?t/x", "cd $x; echo >a", "cd -; echo >a", "echo >$(x)", "echo 1<>$a"])
def test_a_file_that_is_known_only_when_the_line_runs_is_unknown(line):
    assert None in set(list_written_files(line))


NOT_REDIRECTED = """\
echo 'a > $x'
grep -E '<a>$' f
echo "a->b" | cat
echo "$a -> $b"
git commit -m 'learn <path>, a -> $x'
if (( $# > $n )); then ls; fi
ls 2>&1
ls # > $x
tee >(wc)
cat <<'E'\\n<p>$(x) > $y</p>\\nE
cat <<-E\\n\\t$x > $y\\n\\tE
echo '<a>' | sh -c 'ls <a>'
echo \\>$x
[[ $a > $b ]] && ls
ls; if [[ "$a" < "b" ]]; then ls; fi
""".splitlines()


@check_rows("line", NOT_REDIRECTED)
def test_a_sign_that_is_quoted_or_means_something_else_redirects_nothing(line):
    assert list(list_written_files(line.replace("\\n", "\n").replace("\\t", "\t"))) == []


REDIRECTED = [
    ('echo "$(date "+%F")" > a', {"a"}),
    ('x="$(echo "x" > a)"', {"a"}),
    ("echo $'\\'' > a #'", {"a"}),
    ("for f in *; do echo $f; done >| a", {"a"}),
    ("cat <<E > a\n<p>$x</p>\nE\nls > $b", {"a", None}),
    ("cat <<E\n$(ls > a)\nE", {"a"}),
    ("sh -c \"ls &>> b\"; eval 'ls > a'", {"a", "b"}),
    ("{ ls; } > 'b'\"c\"", {"bc"}),
    ("echo [[ a > b ]]", {"b"}),
    ("echo \\; [[ a > b ]]", {"b"}),
    ("echo \\\n[[ a > b ]]", {"b"}),
    ("ls >& [[ > b ]]", {None, "b"}),
    ("[[ a > b ]] > c", {"c"}),
    ("[[ $(echo x > a) > b ]]", {"a", "b"}),
    ("sh -c '[[ a > b ]]'", {"b"}),
    ("sh -c '((ls > b))'", {"b"}),
    ('echo "$(x)" > a "y"', {"a"}),
    ('x="$(date)"; echo "$x" > "a"', {"a"}),
    ('echo "$(cat <<E\na "b\nE\n)" > $x "c"', {None}),
    ('echo "$(case x in a) echo > a;; esac)" "> $x"', {"a"}),
    ("echo `ls > a` > b", {"a", "b"}),
    ("x=`ls #`; ls > a 'b'", {"a"}),
    ('echo "`ls "b" > a`" > c', {"a", "c"}),
    ("echo >& 'a\\\nb'", {None}),
    ("echo >&\".g'i't/config\"", {None}),
    ("echo >&'$(ls).git/config' 2>&1", {None}),
    ("echo >&-b > c", {"c"}),
    ('echo "$\\\n(ls > a)"', {"a"}),
    ("echo $\\\n'\\'' > a #'", {"a"}),
    ("cd -P b; ls > a", {"a", "b/a"}),
    ("s'h' -c 'ls > a'", {"a"}),
    ("diff <(ls > a) b", {"a"}),
    ('cat <<E\n$(\ny "x > c)\nE\nls > b', {"b"}),
    ("cat <<E\n'$(ls > a) $x > c\nE\nls > b", {"a", "b"}),
    ('sh -c "ls $(x) > a; ls > $(y)"', {"a", None}),
    ("bash <<E\nls > a\nE", {"a"}),
]


@check_rows("line, files", REDIRECTED)
def test_a_redirection_is_found_wherever_it_is(line, files):
    assert set(list_written_files(line)) == files


SEVERAL_FOLDERS = [
    ("cd a; cd b; ls > c", {"c", "a/c", "b/c", "a/b/c"}),
    ("f() { cd a; }; ls > /b", {"/b"}),
    ("cd a && for f in b c; do ls; done > d", {"d", "a/d"}),
    ("cd a; sh -c 'ls > b'", {"b", "a/b"}),
    ("sh -c 'cd a'; ls > b", {"b"}),
    ("sh -c 'cd a; ls > b'; ls > c", {"b", "a/b", "c"}),
    ("echo 'ls > b' | (cd a; sh)", {"b", "a/b"}),
    ("cd a; bash <<'E'\nls > b\nE", {"b", "a/b"}),
    ("cd a; sh <<< 'ls > b'", {"b", "a/b"}),
    ("trap 'ls > b' EXIT", {"b"}),
    ("timeout 5 bash -c 'cd a && ls' > b", {"b"}),
    ("builtin cd a; ls > b", {"b", "a/b"}),
    ("command cd -- a; ls > b", {"b", "a/b"}),
    ("pushd -n a; ls > b", {"b", "a/b"}),
    ("(cd a; ls > b); ls > c", {"b", "a/b", "c"}),
    ("(cd $x && make); ls > b", {"b"}),
    ("(cd a; case b in b) ls > c;; esac)", {"c", "a/c"}),
    ("(cd a; echo `)`; ls > c)", {"c", "a/c"}),
    ("echo $(cd a); ls > b", {"b"}),
    ("ls <(cd a); ls > b", {"b"}),
    ("{ cd a; }; ls > b", {"b", "a/b"}),
]


@check_rows("line, files", SEVERAL_FOLDERS)
def test_a_file_is_named_for_each_folder_that_its_command_may_run_in(line, files):
    assert set(list_written_files(line)) == files


UNKNOWN_FOLDERS = """\
cd a; cd b; cd c; cd d; cd e; cd .git; ls > x
cd; ls > x
cd "$y"; ls > x
popd; ls > x
eval 'cd .git'; ls > x
! X=1 command -p eval 'cd .git'; ls > x
> /dev/null eval 'cd .git'; ls > x
x="$(a)" eval 'cd .git'; ls > x
f() { eval 'cd .git'; }; f; ls > x
case a in (a) eval 'cd .git'; ls > x;; esac
case a in esac; eval 'cd .git'; ls > x
[[ -n $(eval 'cd .git'; ls > x) ]]
echo "a $(ls) $(eval 'cd .git'; ls > x)"
source <(echo cd .git); ls > x
. /dev/stdin <<< 'cd .git'; ls > x
source $y; ls > x
alias y='cd .git'\\ny; ls > x
trap 'cd .git' DEBUG; ls > x
mapfile -C 'cd .git; :' -c1 y < a; ls > x
$y .git; ls > x
y=cd; ${y} .git; ls > x
command $y .git; ls > x
$(echo c)d .git; ls > x
`echo c`d .git; ls > x
"$(echo c)d" .git; ls > x
c{d,} .git; ls > x
/bin/c? .git; ls > x
CDPATH=.git; cd hooks; ls > x
export CDPATH=.git; cd hooks; ls > x
f() { ls > x; }; cd .git; f
f () { ls > x; }; cd .git; f
f( \\\\n) { ls > x; }; cd .git; f
function f { ls > x; }; cd .git; f
for y in 1 2; do ls > x; cd .git; done
time while ls > x; do cd .git; done
until ls > x; do cd .git; done
while ls > x; do eval 'cd .git'; done
if [[ a == b ]] then eval 'cd .git'; ls > x; fi
if [[ a < b ]] then eval 'cd .git'; ls > x; fi
if case a in a) ls;; esac then eval 'cd .git'; ls > x; fi
while :; do case a in a) ls > x;; done) ls;; esac; cd .git; done
while :; do case a in a) ls > x;& done) ls;; esac; cd .git; done
while :; do case a in a) ls > x;\\\\n; done) ls;; esac; cd .git; done
while :; do ls > x; \\done; cd .git; done
for done in 1 2; do ls > x; cd .git; done
fo\\\\nr y in 1 2; do ls > x; cd .git; done
(cd .git; case esac in a) ls;; *) ls > x;; esac)
if { :; } then eval 'cd .git'; ls > x; fi
env -C .git sh -c 'ls > x'
env --chdir=.git sh -c 'ls > x'
env -vC.git sh -c 'ls > x'
env -S '-C .git sh -c "ls > x"'
sudo -D .git sh -c 'ls > x'
find . -name .git -execdir sh -c 'ls > x' \\;
git -C .git submodule foreach 'ls > x'
tar -C .git -cf y --to-command='sh -c "ls > x"' .
make -C .git SHELL='sh -c "ls > x"'
parallel --wd .git 'ls > x' ::: 1
""".splitlines()


@check_rows("line", UNKNOWN_FOLDERS)
def test_a_folder_that_is_known_only_when_the_line_runs_may_be_any(line):
    assert None in set(list_written_files(line.replace("\\n", "\n")))


KNOWN_FOLDERS = """\
cd a && for f in b c; do wc $f; done > ../x
for f in *.py; do python $f; done > x
while read l; do echo "$l"; done < a > x
f() { [[ $a > $b ]] && ls; }; f > x
y="$(date)"; echo "$y" > x
y=$(git rev-parse HEAD) make > x
echo $(date) $y > x
echo "$y `date` $(ls) $y `ls`" > x
y=("$@" "$z"); ls > x
$PYTHON a.py > x
"$VENV/bin/python" a.py > x
case $y in\\n *.c|*.h) ls;;\\n *) ls > x;;\\nesac; ls >> x
if [[ -f $y && $y == "$(z)" || $z == a ]]; then ls > x; fi
cat > x <<'E'\\n#!/bin/bash\\nls > $1\\nE
cat > x <<E\\n`date` of today\\nE\\nls >> x
grep -rn eval . > x
{ ls; cat a; } > x
! time command ls > x
source bin/activate && pytest -q > x
. .venv/bin/activate; pytest > x
env A=1 bash -c 'ls > x'
find . -name '*.c' -exec sh -c 'ls > x' \\;
for ((i=0;i<3;i++)); do echo $i >> x; done
for f in *; do ls > x; done; cd ..; pwd
""".splitlines()


@check_rows("line", KNOWN_FOLDERS)
def test_of_ordinary_lines_every_file_is_known(line):
    assert set(list_written_files(line.replace("\\n", "\n"))) <= {"x", "../x", "a/../x"}


GIVEN_TO_SHELLS = """\
$SHELL -c 'ls > x'
nice "$SHELL" -c 'ls > x'
/bin/s? -c 'ls > x'
echo 'ls > x' | $y
git submodule foreach 'ls > x'
bash <<'E'\\nls > x\\nE
cat <<'E' | bash\\nls > x\\nE
cat <<'A'; bash <<'B'\\ny\\nA\\nls > x\\nB
bash <<-'E'\\n\\tls > x\\n\\tE
. /dev/stdin <<'E'\\nls > x\\nE
bash <<< 'ls > x'
sh -c "eval 'ls > x'"
at now <<< 'ls > x'
/bin/ksh93 -c 'ls > x'
""".splitlines()


@check_rows("line", GIVEN_TO_SHELLS)
def test_text_that_a_shell_may_be_given_is_read_as_a_line(line):
    assert "x" in set(list_written_files(line.replace("\\n", "\n").replace("\\t", "\t")))


@check_rows("line", ["xargs -I% sh -c 'ls > %/x'", "xargs -0rI Q sh -c 'ls > Q/x'", "xargs --replace=% sh -c 'ls > %'"])
def test_a_name_that_xargs_puts_in_is_unknown(line):
    assert list(list_written_files(line)) == [None]


@pytest.mark.parametrize("line", ["echo x > a\0b", "echo x > \ud800", f"echo x > {'a' * 100_000}"])
def test_of_a_line_that_cannot_be_looked_at_no_file_is_known(line):
    assert list(list_written_files(line)) == [None]
