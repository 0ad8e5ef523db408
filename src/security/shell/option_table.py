"""The options that each command may have without asking: a row each, of permitted options, never of forbidden ones.

Source: the manuals of GNU coreutils 9, grep 3.11, findutils 4.9, diffutils 3.10, file 5.44, tree 2.1, ripgrep 14 and
git 2.39. It leaves out what writes, runs, waits for ever, or takes a list of files from a file, and abbreviations of
long options.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

Kind = Literal["flags", "follow", "number", "text", "path", "script", "attached"]


class Row(NamedTuple):
    """Options by what they take: in each field, long ones as words, and short ones as letters of one word.

    `follow`: flags that make the command follow links; `attached`: options with optional text, which stands right
    behind or after `=`. `operands` says what the other words are: with "pattern", the first is a pattern unless an
    option of `patterns` was given, and the rest are paths.
    """

    flags: str = ""
    follow: str = ""
    number: str = ""
    text: str = ""
    path: str = ""
    script: str = ""
    attached: str = ""
    operands: Literal["paths", "pattern", "text", "format", "script", "print", "test", "anything"] = "paths"
    max_operands: int = 1_000_000
    dash_number: bool = False  # -5 is an option
    patterns: tuple[str, ...] = ()
    names: str = ""  # options: if no other is given, the command shows only the names of its operands
    follows: bool = False  # it follows the links in the folders that it is given, whatever the options


@lru_cache(maxsize=256)
def list_options(row: Row) -> Mapping[str, Kind]:
    """Each option of a row, and what it takes."""
    known: dict[str, Kind] = {}
    for kind in get_args(Kind):
        for name in getattr(row, kind).split():
            for option in [name] if name.startswith("--") else [f"-{letter}" for letter in name]:
                known[option] = kind
    return known


_HELP = "--help --version"
_ENDS = "qvz --quiet --silent --verbose --zero-terminated --help --version"
_CHECKSUM = Row(f"btz --binary --tag --text --zero {_HELP}")
_GIT_DIFF = (
    "puRwbaz --patch --no-patch --raw --patch-with-raw --minimal --patience --histogram --numstat --shortstat"
    " --summary --name-only --name-status --no-renames --check --full-index --binary --text --ignore-cr-at-eol"
    " --ignore-space-at-eol --ignore-space-change --ignore-all-space --ignore-blank-lines --function-context"
    " --exit-code --quiet --no-ext-diff --no-textconv --no-prefix --no-color --cached --staged --merge-base"
    " --pickaxe-all --pickaxe-regex --compact-summary"
)
_GIT_DIFF_NUMBER = "U --unified --inter-hunk-context"
_GIT_DIFF_TEXT = "SG --diff-algorithm --diff-filter --anchored --src-prefix --dst-prefix --line-prefix"
_GIT_DIFF_ATTACHED = (
    "MCB --stat --dirstat --color --color-words --word-diff --color-moved --find-renames --find-copies --abbrev"
    " --relative --ignore-submodules --submodule --word-diff-regex"
)
_GIT_LOG = (
    "gis --oneline --graph --decorate --no-decorate --all --branches --tags --remotes --follow --merges --no-merges"
    " --first-parent --reverse --date-order --topo-order --author-date-order --abbrev-commit --no-abbrev-commit"
    " --full-history --simplify-merges --cherry --cherry-mark --left-right --boundary --walk-reflogs --parents"
    " --children --regexp-ignore-case --extended-regexp --fixed-strings --perl-regexp --invert-grep --all-match"
    " --source --relative-date --no-notes"
)

ROWS: Mapping[str, Row] = {
    "ls": Row(
        "aAbBcCdfFgGhHiklmnNopqQrRsStuUvxXZ1 --all --almost-all --author --escape --ignore-backups --directory"
        " --dired --group-directories-first --no-group --human-readable --si --inode --kibibytes --numeric-uid-gid"
        f" --literal --hide-control-chars --show-control-chars --quote-name --reverse --recursive --size {_HELP}"
        " --dereference-command-line --dereference-command-line-symlink-to-dir --full-time --context --zero",
        follow="L --dereference",
        number="wT --width --tabsize",
        text="I --ignore --hide --sort --time --time-style --format --indicator-style --quoting-style --block-size",
        attached="--color --classify --hyperlink",
        names="-d --directory",
    ),
    "cat": Row(
        "AbeEnstTuv --show-all --number-nonblank --show-ends --number --squeeze-blank --show-tabs"
        f" --show-nonprinting {_HELP}"
    ),
    "sed": Row(
        "nErsuz --quiet --silent --regexp-extended --separate --null-data --posix --sandbox",
        script="e --expression",
        operands="script",
        patterns=("-e", "--expression"),
    ),
    "awk": Row(text="Fv", operands="script"),
    "jq": Row(
        "rcnesSajMC --raw-output --compact-output --null-input --exit-status --slurp --sort-keys --ascii-output"
        f" --join-output --monochrome-output --color-output --tab {_HELP}",
        number="--indent",
        operands="script",
    ),
    "tac": Row(f"br --before --regex {_HELP}", text="s --separator"),
    "rev": Row(_HELP),
    "nl": Row(f"p --no-renumber {_HELP}", number="ilvw", text="bdfhns"),
    "pwd": Row("LP --logical --physical", max_operands=0),
    "echo": Row(operands="anything"),
    "true": Row(operands="anything"),
    "false": Row(operands="anything"),
    "head": Row(_ENDS, number="nc --lines --bytes", dash_number=True),
    "tail": Row(_ENDS, number="nc --lines --bytes", dash_number=True),
    "wc": Row(f"cmlLw --bytes --chars --lines --max-line-length --words {_HELP}", text="--total"),
    "grep": Row(
        "EFGPiywxvcLloqsbHhnTuUZzrIa --extended-regexp --fixed-strings --basic-regexp --perl-regexp --ignore-case"
        " --no-ignore-case --word-regexp --line-regexp --invert-match --count --files-without-match"
        " --files-with-matches --only-matching --quiet --silent --no-messages --byte-offset --with-filename"
        " --no-filename --line-number --initial-tab --null --null-data --text --binary --recursive --line-buffered"
        f" {_HELP}",
        follow="R --dereference-recursive",
        number="mABC --max-count --after-context --before-context --context",
        text="edD --regexp --label --binary-files --directories --devices --exclude --exclude-dir --include",
        path="f --file --exclude-from",
        attached="--color --colour",
        operands="pattern",
        dash_number=True,
        patterns=("-e", "-f", "--regexp", "--file"),
    ),
    "rg": Row(
        "abcFHiIlnNoPqsSUuvwx0 --text --byte-offset --count --count-matches --crlf --fixed-strings --heading"
        " --hidden --ignore-case --ignore-file-case-insensitive --invert-match --json --line-number --line-regexp"
        " --multiline --multiline-dotall --no-config --no-filename --no-heading --no-ignore --no-ignore-vcs"
        " --no-line-number --no-messages --null --null-data --one-file-system --only-matching --passthru --pcre2"
        " --pretty --quiet --smart-case --case-sensitive --stats --trim --unrestricted --vimgrep --with-filename"
        f" --word-regexp --files --files-with-matches --files-without-match --column --no-column {_HELP}",
        follow="L --follow",
        number="ABCmMjd --after-context --before-context --context --max-count --max-columns --threads --max-depth",
        text="egtTrE --regexp --glob --iglob --type --type-not --replace --encoding --engine --sort --sortr --color"
        " --colors --max-filesize --context-separator",
        path="f --file --ignore-file",
        operands="pattern",
        patterns=("-e", "-f", "--regexp", "--file", "--files"),
    ),
    "sort": Row(
        "bdfghiMnRrVcCmsuz --ignore-leading-blanks --dictionary-order --ignore-case --general-numeric-sort"
        " --human-numeric-sort --ignore-nonprinting --month-sort --numeric-sort --random-sort --reverse"
        f" --version-sort --merge --stable --unique --zero-terminated --debug {_HELP}",
        number="S --buffer-size --parallel --batch-size",
        text="kt --key --field-separator --sort",
        attached="--check",
    ),
    "uniq": Row(
        f"cdDiuz --count --repeated --ignore-case --unique --zero-terminated {_HELP}",
        number="fsw --skip-fields --skip-chars --check-chars",
        attached="--all-repeated --group",
        max_operands=1,  # a second one would be written
    ),
    "cut": Row(
        f"nsz --complement --only-delimited --zero-terminated {_HELP}",
        text="bcdf --bytes --characters --delimiter --fields --output-delimiter",
    ),
    "tr": Row(f"cCdst --complement --delete --squeeze-repeats --truncate-set1 {_HELP}", operands="text"),
    "paste": Row(f"sz --serial --zero-terminated {_HELP}", text="d --delimiters"),
    "comm": Row(f"123iz --check-order --nocheck-order --total --zero-terminated {_HELP}", text="--output-delimiter"),
    "fold": Row(f"bs --bytes --spaces {_HELP}", number="w --width"),
    "expand": Row(f"i --initial {_HELP}", text="t --tabs"),
    "cmp": Row(f"bls --print-bytes --verbose --quiet --silent {_HELP}", number="n --bytes"),
    "diff": Row(
        "abBcdeEinNpqrstTuwyZ --text --ignore-space-change --ignore-blank-lines --brief --context --ed --expand-tabs"
        " --ignore-tab-expansion --ignore-case --new-file --unidirectional-new-file --show-c-function --rcs"
        " --recursive --report-identical-files --side-by-side --minimal --speed-large-files --initial-tab"
        " --ignore-all-space --ignore-trailing-space --no-dereference --left-column --suppress-common-lines"
        f" --strip-trailing-cr --normal {_HELP}",
        number="UCW --width --tabsize --horizon-lines",
        text="xIFL --exclude --ignore-matching-lines --show-function-line --label --palette --line-format",
        path="X --exclude-from --from-file --to-file",
        attached="--unified --context --color",
        follows=True,  # if its operands are folders
    ),
    "file": Row("bhikLNnr0E --brief --mime --mime-type --mime-encoding --dereference --no-dereference", text="F"),
    "stat": Row(f"Lft --dereference --file-system --terse {_HELP}", text="c --format --printf"),
    "du": Row(
        "0abchHklmsSDxP --null --all --apparent-size --bytes --total --dereference-args --human-readable --inodes"
        f" --si --count-links --no-dereference --separate-dirs --summarize --one-file-system {_HELP}",
        follow="L --dereference",
        number="dBt --max-depth --block-size --threshold",
        text="--exclude",
        path="X --exclude-from",
        attached="--time",
    ),
    "tree": Row(
        "adfinpqsuhgDFqNQrtUcvSACJX --dirsfirst --noreport --prune --du --si --inodes --device --gitignore"
        f" --ignore-case --matchdirs --metafirst {_HELP}",
        follow="l",
        number="L --filelimit",
        text="PI --charset --timefmt --sort",
    ),
    "which": Row("a --all"),
    "type": Row("aptP"),
    "command -v": Row(),
    "printf": Row(operands="print"),
    "test": Row(operands="test"),
    "[": Row(operands="test"),
    "basename": Row(f"az --multiple --zero {_HELP}", text="s --suffix", operands="text"),
    "dirname": Row(f"z --zero {_HELP}", operands="text"),
    "realpath": Row(f"emLPqsz --canonicalize-existing --canonicalize-missing --logical --physical --quiet {_HELP}"),
    "readlink": Row(f"femnqsvz --canonicalize --canonicalize-existing --canonicalize-missing --no-newline {_HELP}"),
    "date": Row(
        f"uR --utc --universal --rfc-email {_HELP}",
        text="d --date",
        path="r --reference",
        attached="I --iso-8601 --rfc-3339",
        operands="format",
        max_operands=1,
    ),
    "seq": Row(f"w --equal-width {_HELP}", text="fs --format --separator", operands="text", dash_number=True),
    "uname": Row(
        "asnrvmpio --all --kernel-name --nodename --kernel-release --machine --operating-system", max_operands=0
    ),
    "whoami": Row(_HELP, max_operands=0),
    "nproc": Row(f"--all {_HELP}", number="--ignore", max_operands=0),
    "md5sum": _CHECKSUM,
    "sha1sum": _CHECKSUM,
    "sha256sum": _CHECKSUM,
    "sha512sum": _CHECKSUM,
    "cksum": Row(_HELP),
    "od": Row(
        "abcdfilosxv --output-duplicates",
        number="jNw --skip-bytes --read-bytes",
        text="At --address-radix --format --endian",
    ),
    "git status": Row(
        "sbvz --short --branch --show-stash --long --verbose --null --no-renames --ahead-behind --no-ahead-behind",
        attached="u --porcelain --untracked-files --ignored --ignore-submodules --column --find-renames",
    ),
    "git diff": Row(_GIT_DIFF, number=_GIT_DIFF_NUMBER, text=_GIT_DIFF_TEXT, attached=_GIT_DIFF_ATTACHED),
    "git log": Row(
        f"{_GIT_DIFF} {_GIT_LOG}",
        number=f"n --max-count --skip {_GIT_DIFF_NUMBER}",
        text=f"{_GIT_DIFF_TEXT} --since --after --until --before --author --committer --grep --format --date",
        attached=f"{_GIT_DIFF_ATTACHED} --pretty --decorate",
        dash_number=True,
    ),
    "git show": Row(
        f"{_GIT_DIFF} {_GIT_LOG}",
        number=_GIT_DIFF_NUMBER,
        text=f"{_GIT_DIFF_TEXT} --format --date",
        attached=f"{_GIT_DIFF_ATTACHED} --pretty --decorate",
    ),
    "git blame": Row(
        "blsewMCtfnp --root --show-stats --porcelain --line-porcelain --show-email", text="L --since --date"
    ),
    "git ls-files": Row(
        "cdmosuktvz --cached --deleted --modified --others --stage --unmerged --killed --full-name --exclude-standard"
        " --error-unmatch --directory --deduplicate --eol",
        text="x --exclude",
    ),
    "git rev-parse": Row(
        "--show-toplevel --show-prefix --is-inside-work-tree --git-dir --verify --quiet --show-cdup",
        attached="--abbrev-ref --short",
    ),
    "git grep": Row(
        "aIiwvhHEGFPnlLzocpWq --text --ignore-case --word-regexp --invert-match --full-name --extended-regexp"
        " --basic-regexp --fixed-strings --perl-regexp --line-number --column --files-with-matches --name-only"
        " --files-without-match --null --only-matching --count --heading --break --show-function --function-context"
        " --quiet --cached --untracked --all-match",
        number="ABC --after-context --before-context --context --max-depth --threads",
        text="e",
        attached="--color",
        operands="pattern",
        patterns=("-e",),
    ),
    "git ls-tree": Row("rdtlz --long --name-only --name-status --full-name --full-tree", attached="--abbrev"),
    "git cat-file": Row("ptse"),
    "git merge-base": Row("a --all --is-ancestor --octopus --fork-point"),
    "git show-ref": Row("dsq --head --heads --tags --dereference --verify --quiet", attached="--hash --abbrev"),
    "git describe": Row("--all --tags --long --dirty --always --contains --exact-match", attached="--abbrev"),
    "git shortlog": Row("nsec --numbered --summary --email --committer --no-merges", text="--since --until"),
    "git branch": Row("arv --all --remotes --verbose --show-current --list", attached="--color", max_operands=0),
    "git remote": Row("v --verbose", max_operands=0),
}


# Commands that only run another one, which stands behind their options and first operands. They need no rule of their
# own. `max_operands`: how many operands they take for themselves.
WRAPPERS: Mapping[str, Row] = {
    "time": Row("p", max_operands=0),
    "command": Row(max_operands=0),
    "nice": Row(number="n --adjustment", max_operands=0, dash_number=True),
    "timeout": Row(
        "v --foreground --preserve-status --verbose", number="k --kill-after", text="s --signal", max_operands=1
    ),
    "stdbuf": Row(text="ioe --input --output --error", max_operands=0),
}


class Predicate(NamedTuple):
    """One of find's predicates, and what follows it."""

    takes: Literal["nothing", "text", "path"] = "nothing"
    follows: bool = False


def _list_predicates() -> dict[str, Predicate]:
    nothing = (
        "-empty -daystart -nouser -nogroup -readable -writable -executable -true -false -mount -xdev -depth -noleaf"
        " -ignore_readdir_race -noignore_readdir_race -warn -nowarn -print -print0 -ls -prune -quit -not -a -and -o -or"
        " ( ) ! ,"
    )
    text = (
        "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype -type -xtype -size -mtime -ctime"
        " -atime -mmin -cmin -amin -user -group -uid -gid -perm -links -inum -fstype -lname -ilname -used -maxdepth"
        " -mindepth -printf"
    )
    path = "-newer -anewer -cnewer -samefile"
    newer = {f"-newer{a}{b}": Predicate("text" if b == "t" else "path") for a in "aBcm" for b in "aBcmt"}
    return {
        **dict.fromkeys(nothing.split(), Predicate()),
        **dict.fromkeys(text.split(), Predicate("text")),
        **dict.fromkeys(path.split(), Predicate("path")),
        **newer,
        "-follow": Predicate(follows=True),
    }


FIND: Mapping[str, Predicate] = _list_predicates()
