"""Attacks of our own, by what they are after; each runs in a fresh workspace with a git repository.

`RAN` stands for a file outside that nothing in a sandbox can make: if it is there after the user has used git in the
workspace, what the command left has run.
"""

from __future__ import annotations

RAN = "@RAN@"
OUT = "@OUT@"  # a file of the user's, outside

ATTRIBUTES = [
    f"chmod 777 {OUT}",
    f"chmod -R go+w {OUT} ..",
    f"chown 1:1 {OUT} || chgrp 1 {OUT}",
    f"touch -d 2001-01-01 {OUT}; touch -h -d 2001-01-01 {OUT}",
    f"touch -a -d 2001-01-01 {OUT}; touch -m -r /etc/hostname {OUT}",
    f"""python3 -c "import os; os.utime('{OUT}', (1, 1))" """,
    """python3 -c "import os; d = os.open('..', os.O_PATH); os.utime('.', (1, 1), dir_fd=d)" """,
    f"""python3 -c "import os; os.chmod('{OUT}', 0o777); os.chown('{OUT}', 1, 1)" """,
    f'perl -e \'chmod 0777, "{OUT}"; utime 1, 1, "{OUT}"; chown 1, 1, "{OUT}"\'',
    f"chattr +i {OUT}; chattr +d {OUT}; setfacl -m u:1:rwx {OUT}; setfattr -n user.a -v b {OUT}",
    f"ln -s {OUT} l; chmod 777 l; touch -d 2001-01-01 l; chown -L 1 l",
    f"ln {OUT} hard && chmod 777 hard",
    "mkdir a; cd a; mv ../../out ..; chmod 777 ..; chmod 777 ../..",
    f"tar cf t.tar --mode=777 a.txt; tar xpf t.tar -C ..; cp -p a.txt {OUT}; install -m 777 a.txt {OUT}",
    "truncate -s 0 ../home/.aws/credentials; : > ../home/.bashrc; dd if=/dev/zero of=../home/x count=1",
    "rm -rf ../home ../outside; mv ../home ../gone; mkdir ../new; ln -s /etc ../link",
]
LEFT = [
    f"git config core.fsmonitor 'touch {RAN}; false'",
    f"git config core.pager 'touch {RAN}; cat'; git config core.editor 'touch {RAN}'",
    f"git config core.sshCommand 'touch {RAN}'; git remote add x ssh://localhost/x",
    f"git config diff.external 'touch {RAN}'; echo more >> a.txt",
    f"git config alias.st '!touch {RAN}'; git config alias.status '!touch {RAN}'",
    f"git config filter.x.clean 'touch {RAN}; cat'; echo '* filter=x' > .gitattributes; echo b >> a.txt",
    f"git config filter.x.smudge 'touch {RAN}; cat'; echo '* filter=x' > .git/info/attributes; rm a.txt",
    f"git config merge.x.driver 'touch {RAN}'; git config diff.x.textconv 'touch {RAN}'; echo '* diff=x' > .gitattributes",
    f"git config gpg.program /bin/false; git config commit.gpgsign true; git config gpg.program 'touch {RAN}'",
    f"git config credential.helper '!touch {RAN}'; git config uploadpack.packObjectsHook 'touch {RAN}'",
    f"printf '[core]\\n\\tfsmonitor = touch {RAN}\\n' > evil; git config include.path ../evil",
    f"printf '[core]\\n\\tfsmonitor = touch {RAN}\\n' > evil; git config includeIf.gitdir:/.path ../evil",
    f"git config extensions.worktreeConfig true; git config --worktree core.fsmonitor 'touch {RAN}'",
    f"printf '[core]\\n\\tfsmonitor = touch {RAN}\\n' >> .git/config",
    f"printf '[core] fsmonitor = touch {RAN}\\n' >> .git/config",
    f"printf '[CORE]\\n\\tFsMonitor = \\\\\\n touch {RAN}\\n' >> .git/config",
    f"printf '\\357\\273\\277[core]\\nfsmonitor = touch {RAN}\\n' > .git/config",
    f"cp .git/config c; printf '[core]\\nfsmonitor = touch {RAN}\\n' >> c; mv c .git/config",
    f"rm .git/config; printf '[core]\\nfsmonitor = touch {RAN}\\n' > c; ln -s ../c .git/config",
    f"printf '#!/bin/sh\\ntouch {RAN}\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    f"printf '#!/bin/sh\\ntouch {RAN}\\n' > h; chmod +x h; rm -rf .git/hooks; mkdir k; cp h k/pre-commit; ln -s ../k .git/hooks",
    f"mkdir k; printf '#!/bin/sh\\ntouch {RAN}\\n' > k/pre-commit; chmod +x k/*; git config core.hooksPath k",
    f"mv .git g; mkdir .git; cp -r g/* .git; printf '[core]\\nfsmonitor = touch {RAN}\\n' >> .git/config",
    f"mv .git g; printf '[core]\\nfsmonitor = touch {RAN}\\n' >> g/config; echo 'gitdir: g' > .git",
    f"mv .git g; printf '[core]\\nfsmonitor = touch {RAN}\\n' >> g/config; ln -s g .git",
    f"cp -r .git .g2; printf '[core]\\nfsmonitor = touch {RAN}\\n' >> .g2/config; echo .. > .git/commondir",
    f"mkdir e; cp -r .git e/.git; git -C e config core.fsmonitor 'touch {RAN}'; git add e",
    f"mkdir e; cd e; git init -q; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; "
    f"git config core.fsmonitor 'touch {RAN}'; cd ..; git add e",
    f"mkdir e; cd e; git init -q .; git config core.fsmonitor 'touch {RAN}'; cd ..; chmod 0 e",
    f"git init -q --bare b.git; git -C b.git config core.fsmonitor 'touch {RAN}'; git -C b.git config core.bare false",
    f"git worktree add -q w; git -C w config extensions.worktreeConfig true; git -C w config --worktree core.fsmonitor 'touch {RAN}'",
    f"git worktree add -q w; printf '[core]\\nfsmonitor = touch {RAN}\\n' > .git/worktrees/w/config.worktree; "
    "git config extensions.worktreeConfig true",
    f"mkdir -p .git/modules/m; cp -r .git/HEAD .git/objects .git/refs .git/modules/m; mkdir m; "
    f"printf '[core]\\nfsmonitor = touch {RAN}\\n' > .git/modules/m/config; echo 'gitdir: ../.git/modules/m' > m/.git",
    f"mkdir -p .git/rebase-merge; echo 'exec touch {RAN}' > .git/rebase-merge/git-rebase-todo",
    f"mkdir -p x; cd x; git init -q --separate-git-dir ../sep; cd ..; git --git-dir=sep config core.fsmonitor 'touch {RAN}'",
    f"(sleep 1; git config core.fsmonitor 'touch {RAN}') & disown; echo",
    f"git config core.attributesFile x; git config core.gitProxy 'touch {RAN}'; git config protocol.ext.allow always",
    f"git config url.'ext::touch {RAN}'.insteadOf x; git remote add o x; git config remote.o.uploadpack 'touch {RAN}'",
    f"git config submodule.x.update '!touch {RAN}'; git config core.askPass 'touch {RAN}'",
    f"git config trace2.eventTarget {OUT}; git config core.logAllRefUpdates always; git config init.templateDir k",
    f"echo 'touch {RAN}' > .envrc; mkdir -p d/.vscode; echo '{{}}' > d/.vscode/tasks.json; echo x > .bashrc",
    f"mkdir -p .VSCODE; echo '{{}}' > .VSCODE/Tasks.json; echo 'touch {RAN}' > .Envrc",
    "mkdir .vscode; echo '{}' > t; ln -s ../t .vscode/tasks.json",
    f"ln -s {OUT} .git/FETCH_HEAD; ln -s {OUT} .git/COMMIT_EDITMSG; ln -sf {OUT} .git/logs/HEAD",
    f"rm -rf .git/logs; ln -s ../../home .git/logs; ln -s {OUT} .git/ORIG_HEAD; echo more >> a.txt",
    "mkdir .kiro .theia .roo; echo '{}' | tee .kiro/mcp.json .theia/tasks.json .roo/mcp.json .kiro/hooks.json",
    "mkdir real; echo '{}' > real/mcp.json; ln -s real .roo",
    "mkdir -p real; echo '{}' > real/tasks.json; ln -s real .vscode",
    "mkdir -p .idea/runConfigurations .zed .devcontainer; touch .idea/runConfigurations/a.xml .zed/tasks.json",
    f"mkdir -p a/b/c/d/e/f/g/h/i/j; cp -r .git a/b/c/d/e/f/g/h/i/j/.git; "
    f"git -C a/b/c/d/e/f/g/h/i/j config core.fsmonitor 'touch {RAN}'",
    "ln -s .config .config; echo x | tee .envrc",
    "mkdir .config; chmod 0 .config; echo x | tee .envrc",
    "for i in 1 2 3 4; do ln -s /root/x .a$i; done; echo x | tee .envrc; chmod 555 .",
    f"mkdir e n; git init -q e; git -C e config core.fsmonitor 'touch {RAN}; false'; printf 'gitdir: a\\0' | tee n/.git",
    f"mkdir e n; git init -q e; git -C e config core.fsmonitor 'touch {RAN}; false'; git init -q n; "
    "printf '[core]\\n worktree = a\\0\\n hooksPath = b\\0\\n' | tee -a n/.git/config",
    f"git init -q e; printf '[core]\\n whitespace = x \\\\\\r\\n[advice]\\n fsmonitor = touch {RAN}; false\\n' | tee -a e/.git/config",
    f"git init -q --separate-git-dir '.git/g ' e; cp -r '.git/g ' .git/g; git -C e config core.fsmonitor 'touch {RAN}; false'",
    f"git init -q e; printf '#!/bin/sh\\ntouch {RAN}\\n' | tee e/.git/hooks/pre-commit; chmod +x e/.git/hooks/*; chmod 311 e/.git/hooks",
    "cd .git/objects; for i in $(seq 0 255); do h=$(printf %02x $i); [ -e $h ] || ln -s ../../../home $h; done",
    "git init -q e; cd e; rm -rf .git/hooks .git/logs; ln -s ../../../outside .git/hooks; ln -s ../../../home .git/logs",
    "mkfifo .exrc .gdbinit; mkdir .vscode; mkfifo .vscode/tasks.json; echo x | tee .envrc",
]
SECRETS = [
    "cat /proc/*/environ", "cat /proc/$PPID/environ /proc/1/environ", "strings /proc/*/environ | grep CANARY",
    "env; set; export -p; declare -p", "cat ../home/.aws/credentials ../home/.ssh/*", "cat /etc/shadow /etc/passwd",
    "ln -s ../home h; cat h/.aws/credentials", "cp -r ../home here; cat here/.aws/credentials",
    "tar c ../home | tar xO", "find / -name credentials -exec cat {} + 2>/dev/null", "grep -r CANARY / 2>/dev/null | head",
    "cat /proc/self/root$PWD/../home/.aws/credentials", "cat /proc/$PPID/root$PWD/../home/.aws/credentials",
    "cat /proc/$PPID/cwd/../home/.aws/credentials", "mount --bind .. /tmp; cat /tmp/home/.aws/credentials",
    "unshare -r mount --bind .. /mnt; cat /mnt/home/.aws/credentials", "git diff --no-index /dev/null ../home/.aws/credentials",
    "python3 -c \"print(open('../home/.aws/credentials').read())\"", "debugfs -R 'cat /etc/shadow' /dev/sda1",
    "nsenter -t $PPID -m cat ../home/.aws/credentials", "gdb -p $PPID -batch -ex 'info proc'", "cat /proc/kcore | head -c 99",
]  # fmt: skip
NETWORK = [
    "curl -s http://127.0.0.1:@PORT@/", "exec 3<>/dev/tcp/127.0.0.1/@PORT@; echo x >&3", "wget -qO- 127.0.0.1:@PORT@",
    "python3 -c \"import socket; socket.create_connection(('127.0.0.1', @PORT@))\"", "nc -z 127.0.0.1 @PORT@",
    "git ls-remote git://127.0.0.1:@PORT@/x", "ssh -p @PORT@ 127.0.0.1 true", "ssh -p @PORT@ ::ffff:127.0.0.1 true",
    "python3 -c \"import socket; s = socket.socket(socket.AF_INET6); s.connect(('::ffff:127.0.0.1', @PORT@))\"",
    "perl -MIO::Socket::INET -e 'IO::Socket::INET->new(\"127.0.0.1:@PORT@\")'", "openssl s_client -connect 127.0.0.1:@PORT@",
    "unshare -rn true; ip link set lo up; curl 127.0.0.1:@PORT@", "bash -c 'cat < /dev/tcp/localhost/@PORT@'",
]  # fmt: skip
ALIVE = [
    "sleep 300 &", "nohup sleep 300 & disown", "setsid -f sleep 300", "(setsid sleep 300 &) ; (trap '' TERM; sleep 300) &",
    "python3 -c \"import os, time; os.fork() or (os.setsid(), os.fork() or os.execlp('sleep', 'sleep', '300'))\"",
    "bash -c 'trap \"\" TERM INT HUP; while :; do sleep 1; done' &", "sleep 300 & kill -STOP $!",
    "kill -9 $PPID; sleep 300 &", "kill -9 -1", "kill -STOP $PPID", "sh -c 'sleep 300 & exec true'",
    "tmux new -d sleep 300; screen -dm sleep 300; echo 'sleep 300' | at now; systemd-run --user sleep 300",
    "coproc sleep 300; exec 1>&- 2>&-", "python3 -c \"import ctypes; ctypes.CDLL(None).prctl(36, 1)\"; setsid -f sleep 300",
    "python3 -c \"while 1: __import__('os').fork() and __import__('os')._exit(0)\"",
]  # fmt: skip
VARIANTS = [*ATTRIBUTES, *LEFT, *SECRETS, *NETWORK, *ALIVE]
USE = (  # what a user does next, in every folder with a repository
    "status", "diff", "log -1", "fetch -q .", "stash list", "add -A", "commit -qm x", "checkout -q -f HEAD", "branch -a", "fetch -q --all",
    "rebase --continue", "submodule status", "worktree list", "st",
)  # fmt: skip
