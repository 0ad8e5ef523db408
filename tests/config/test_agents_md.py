import os

import pytest

from src.config.agents_md import CUT_NOTE, MAX_CHARS, read_guides, render_guides


@pytest.fixture
def repository(tmp_path):
    """With a workspace two folders down."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "sub" / "here").mkdir(parents=True)
    return (tmp_path / "repo").resolve()


def texts(folder):
    return [guide.text for guide in read_guides(folder)]


def test_the_nearest_comes_last(repository):
    (repository / "AGENTS.md").write_text("far\n")
    (repository / "sub" / "here" / "AGENTS.md").write_text("near\n")
    assert texts(repository / "sub" / "here") == ["far", "near"]


def test_what_is_above_the_repository_is_not_read(repository):
    (repository.parent / "AGENTS.md").write_text("not ours")
    assert texts(repository / "sub") == []


def test_without_a_repository_only_the_workspace_counts(tmp_path):
    (tmp_path / "AGENTS.md").write_text("above")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "AGENTS.md").write_text("here")
    assert texts(tmp_path / "sub") == ["here"]


def test_a_link_within_the_repository_is_followed_and_none_that_leads_out(repository):
    (repository / "CLAUDE.md").write_text("linked")
    (repository / "AGENTS.md").symlink_to("CLAUDE.md")
    (repository.parent / "secret").write_text("secret")
    (repository / "sub" / "AGENTS.md").symlink_to("../../secret")
    assert texts(repository / "sub") == ["linked"]


def test_a_link_to_a_file_that_a_rule_denies_is_not_followed(repository):
    (repository / "CLAUDE.md").write_text("linked")
    (repository / ".env").write_text("secret")
    (repository / "AGENTS.md").symlink_to(".env")
    (guide,) = read_guides(repository, is_unreadable=lambda path: path.name == ".env")
    assert guide.text == "linked"


def test_a_pipe_a_folder_and_bytes_that_are_no_text_stop_nothing(repository):
    os.mkfifo(repository / "AGENTS.md")
    (repository / "sub" / "AGENTS.md").mkdir()
    (repository / "sub" / "here" / "AGENTS.md").write_bytes(b"ok \xff")
    assert texts(repository / "sub" / "here") == ["ok \ufffd"]


def test_all_together_are_bounded_and_the_farthest_gives_way(repository):
    (repository / "AGENTS.md").write_text("f" * MAX_CHARS)
    (repository / "sub" / "AGENTS.md").write_text("n" * (MAX_CHARS - 10))
    far, near = texts(repository / "sub")
    assert near == "n" * (MAX_CHARS - 10)
    assert far == "f" * 10 + CUT_NOTE


def test_a_folder_without_agents_md_may_have_claude_md(repository):
    (repository / "CLAUDE.md").write_text("far")
    (repository / "sub" / "CLAUDE.md").write_text("not this")
    (repository / "sub" / "AGENTS.md").write_text("near")
    assert texts(repository / "sub") == ["far", "near"]


def test_the_users_own_file_comes_first_and_may_be_a_link_to_anywhere(repository, tmp_path):
    (repository / "AGENTS.md").write_text("near")
    (tmp_path / "dotfiles.md").write_text("mine")
    (tmp_path / "AGENTS.md").symlink_to("dotfiles.md")
    assert [guide.text for guide in read_guides(repository, tmp_path / "AGENTS.md")] == ["mine", "near"]
    assert [guide.text for guide in read_guides(repository, tmp_path / "none.md")] == ["near"]


def test_the_prompt_names_each_file(repository):
    (repository / "AGENTS.md").write_text("Run make.")
    assert f"[{repository / 'AGENTS.md'}]\nRun make." in render_guides(read_guides(repository))
    assert render_guides([]) == ""
