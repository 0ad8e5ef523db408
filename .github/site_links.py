"""A hook of mkdocs: links from docs/ to other files of the repository lead to the repository's page."""

import posixpath
import re
from typing import Any

# The target of a Markdown link or picture, without a scheme and not within the page.
_TARGET = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
_LEFT_OUT = ("deploy/", "examples/")  # of docs/; see exclude_docs in mkdocs.yml


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: object) -> str:
    folder = posixpath.dirname(page.file.src_uri)

    def rewrite(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[1]))
        if target.startswith("../"):
            return f"{config.repo_url}/blob/main/{target.removeprefix('../')}{match[2] or ''}"
        if target.startswith(_LEFT_OUT):
            return f"{config.repo_url}/blob/main/docs/{target}"
        return match[0]

    return _TARGET.sub(rewrite, markdown)
