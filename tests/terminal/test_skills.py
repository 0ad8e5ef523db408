"""Skills and commands on a full terminal: the user's at once, the workspace's once it is trusted."""

from __future__ import annotations

from .terminal import Server, Terminal


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def asked(server):
    return server.requests[-1]["messages"][-1]["content"]


def test_commands_with_arguments_skills_for_the_model_and_trust_in_a_folder(tmp_path):
    write(tmp_path, ".agents/commands/review.md", "Review $1, all of $ARGUMENTS.")
    write(tmp_path, ".claude/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: How to read PDF.\n---\nUse pdftotext.")
    write(tmp_path, ".config/vllm-bot/commands/bad.md", "---\ndescription: [oops\n---\nx")
    write(tmp_path / "work", ".claude/commands/here.md", "Work here.")
    write(tmp_path / "work", ".claude/commands/help.md", "Shadow the help.")
    with Server(["Reviewed."], ["Worked."]) as server, Terminal(tmp_path, server) as chat:
        chat.shows(r"\.claude/commands of\s+this\s+folder\s+are\s+not\s+used;\s+/trust\s+lets\s+them\s+in")
        chat.prompts()
        chat.line("/here")
        chat.shows(r"/here is in .claude/commands of this folder, which you do not trust yet")
        chat.line("/review a.py b")
        chat.shows("its front matter is not valid YAML")
        chat.shows("^Reviewed.$")
        chat.prompts()
        assert asked(server) == "Review a.py, all of a.py b."
        tools = {tool["function"]["name"]: tool["function"]["description"] for tool in server.requests[0]["tools"]}
        assert "pdf: How to read PDF." in tools["skill"]
        assert "pdftotext" not in str(server.requests[0])
        chat.line("/trust")
        chat.shows(r"are\s+used\s+now")
        chat.line("/help")
        chat.shows("Ctrl-C, Ctrl-D")
        chat.line("/here")
        chat.shows("^Worked.$")
        assert asked(server) == "Work here."
