"""Skills and commands: one loader, and the tool that reads them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from src.tools import ToolContext
from src.tools.sources.skills import MAX_SHARE, Skill, SkillFolder, SkillSet, load_skills, make_skill_tool
from src.types.messages import ToolCall
from tests.each import check_rows

PDF = "---\nname: pdf\ndescription: How to read PDF files.\nlicense: MIT\n---\n\nUse pdftotext. See forms.md.\n"


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def load(tmp_path):
    def load(files, **options):
        for name, text in files.items():
            write(tmp_path, name, text)
        return load_skills([SkillFolder(tmp_path, **options)])

    return load


def read(skills, **arguments):
    made = make_skill_tool(skills.skills.values(), 32_000)
    return made.run(ToolCall("c", "skill", arguments), ToolContext(Path("/")))


class TestLoading:
    def test_a_skill_and_a_command_are_found(self, load):
        found = load({"skills/pdf/SKILL.md": PDF, "commands/fix.md": "Fix $1.\n"}).skills
        assert [(each.name, each.description, each.text, each.is_command) for each in found.values()] == [
            ("pdf", "How to read PDF files.", "Use pdftotext. See forms.md.", False),
            ("fix", "Fix $1.", "Fix $1.", True),
        ]

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("---\nname: pdf\ndescription: [oops\n---\ntext", "its front matter is not valid YAML: line 4, column 1: "),
            (
                "---\nname: pdf\ndescription: x\ndescription: y\n---\ntext",
                'its front matter is not valid YAML: line 4, column 1: "description" stands twice in one object',
            ),
            ("---\nname: pdf\ndescription: x\ntext", "its front matter has no end (---)"),
            ("---\n- pdf\n---\ntext", "its front matter holds no names and values"),
            ("---\nname: pdf\n---\ntext", "its front matter has no description"),
            ("no front matter", "its front matter has no description"),
            ("---\nname: pdf\ndescription: 7\n---\ntext", "its front matter has no description"),
            ("---\nname: p d f\ndescription: x\n---\ntext", "its name 'p d f' is not one of letters"),
            ("---\nname: [1]\ndescription: x\n---\ntext", "its name in the front matter is not one of letters"),
            (f"---\na: {'[' * 50_000}\n---\ntext", "its front matter is "),
            ("---\nname: pdf\ndescription: x\n---\n", "it has no text"),
            (f"---\nname: pdf\ndescription: x\n---\n{'x' * 100_001}", "it has more than 100,000 characters"),
        ],
    )
    def test_a_file_that_cannot_be_used_is_one_sentence_and_the_rest_loads(self, load, text, why):
        found = load({"skills/bad/SKILL.md": text, "commands/fix.md": "Fix it."})
        assert list(found.skills) == ["fix"]
        (problem,) = found.problems
        assert why in problem
        assert problem.endswith("It is left out.")
        assert "\n" not in problem

    def test_of_two_with_one_name_the_first_counts(self, tmp_path):
        for number in "12":
            write(tmp_path / number, "commands/fix.md", f"Fix {number}.")
        found = load_skills([SkillFolder(tmp_path / "1"), SkillFolder(tmp_path / "2")])
        assert found.skills["fix"].text == "Fix 1."

    def test_a_link_out_of_a_workspace_is_left_out(self, load, tmp_path):
        secret = write(tmp_path / "elsewhere", "secret.md", "Secret.")
        (tmp_path / "work" / "commands").mkdir(parents=True)
        (tmp_path / "work" / "commands" / "fix.md").symlink_to(secret)
        found = load_skills([SkillFolder(tmp_path / "work", tmp_path / "work")])
        assert not found.skills
        assert "a link leads out" in found.problems[0]

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
    def test_a_folder_that_may_not_be_read_holds_nothing(self, load, tmp_path):
        (tmp_path / "closed").mkdir(mode=0o000)
        assert load_skills([SkillFolder(tmp_path / "closed" / ".claude")]) == SkillSet({}, ())

    @pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
    def test_what_is_no_file_is_a_sentence(self, load, tmp_path, make):
        (tmp_path / "commands").mkdir()
        make(tmp_path / "commands" / "fix.md")
        assert "it is no file. It is left out." in load({}).problems[0]


class TestArguments:
    @pytest.mark.parametrize(
        ("text", "line", "expected"),
        [
            ("Fix $1, then $2.", "/fix a.py 'b c'", "Fix a.py, then b c."),
            ("Fix $ARGUMENTS.", "/fix a.py 'b c'", "Fix a.py 'b c'."),
            ("Fix it.", "/fix quickly", "Fix it.\n\nquickly"),
            ("Fix it.", "/fix", "Fix it."),
            ("Fix $3$1.", "/fix a", "Fix a."),
            ("Pay $10.", "/fix", "Pay $10."),
            ("Fix $1.", "/fix it's", "Fix it's."),
        ],
    )
    def test_they_take_their_places(self, load, text, line, expected):
        assert load({"commands/fix.md": text}).expand(line) == expected

    def test_another_name_is_none(self, load):
        assert load({"commands/fix.md": "x"}).expand("/fixx") is None

    def test_a_skill_is_run_as_a_command_as_well(self, load):
        assert load({"skills/pdf/SKILL.md": PDF}).expand("/pdf a.pdf").endswith("See forms.md.\n\na.pdf")


class TestTheTool:
    def test_it_reads_the_text_and_the_files_of_a_skill_and_no_others(self, load):
        skills = load({"skills/pdf/SKILL.md": PDF, "skills/pdf/forms.md": "Forms.", "secret": "No."})
        assert read(skills, name="pdf").value == "Use pdftotext. See forms.md."
        assert read(skills, name="pdf", file="forms.md").value == "Forms."
        assert "is no file of the skill" in read(skills, name="pdf", file="../../secret").text
        assert "is no file of the skill" in read(skills, name="pdf", file="none.md").text
        assert "there are pdf" in read(skills, name="word").text

    def test_a_folder_that_became_a_link_is_not_followed(self, load, tmp_path):
        skills = load({"skills/pdf/SKILL.md": PDF, "skills/pdf/id_rsa": "Mine.", "keys/id_rsa": "secret"})
        (tmp_path / "skills" / "pdf").rename(tmp_path / "skills" / "away")
        (tmp_path / "skills" / "pdf").symlink_to(tmp_path / "keys")
        assert "cannot be read" in read(skills, name="pdf", file="id_rsa").text

    def test_a_link_to_another_file_of_the_skill_is_followed(self, load, tmp_path):
        skills = load({"skills/pdf/SKILL.md": PDF, "skills/pdf/forms.md": "Forms."})
        (tmp_path / "skills" / "pdf" / "link.md").symlink_to("forms.md")
        assert read(skills, name="pdf", file="link.md").value == "Forms."

    def test_a_pipe_is_no_file_of_a_skill(self, load, tmp_path):
        skills = load({"skills/pdf/SKILL.md": PDF})
        os.mkfifo(tmp_path / "skills" / "pdf" / "pipe")
        assert "is no file of the skill" in read(skills, name="pdf", file="pipe").text

    @check_rows("context, count", [(32_000, 3), (32_000, 300), (8_192, 40), (None, 300)])
    def test_what_the_model_is_told_takes_at_most_two_percent_of_the_context(self, context, count):
        skills = [Skill(f"skill-{number}", "It does. " * 20, Path("x"), "text", False) for number in range(count)]
        told = make_skill_tool(skills, context).definition.description
        assert len(told) / 3 <= (context or 8_192) * MAX_SHARE
        assert "skill-0" in told
