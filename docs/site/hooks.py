"""Hooks of mkdocs that let pages link to files of the repository, such as examples.

The same pages are read on GitHub, where relative links to files outside docs/ work, and on the
site, which contains only docs/. So the hooks copy each linked file to repository/ in the site, and
rewrite the link to the copy. A link to a folder leads to the folder's README.md. A link without a
target is a warning of mkdocs, which the strict build treats as an error.
"""

import logging
import posixpath
import re
from pathlib import Path, PurePosixPath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
OUTSIDE = "repository"
LINK = re.compile(r"(?<=\]\()(?P<to>[^)\s#]+)(?P<anchor>#[^)\s]*)?(?=\))")
LOG = logging.getLogger("mkdocs.hooks.dijob")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files outside docs/ to which pages link, and the files to which those files link."""
    todo = [file.src_uri for file in files.documentation_pages()]
    while todo:
        page = todo.pop()
        for target in _outside(page, _text(page)):
            uri = f"{OUTSIDE}/{target}"
            if files.get_file_from_path(uri) is None:
                files.append(_copy(config, uri, target))
                todo.extend([uri] if uri.endswith(".md") else [])
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page with its links rewritten for the site."""
    here = page.file.src_uri

    def moved(link: re.Match[str]) -> str:
        target = _target(here, link["to"])
        if target is None:
            return link[0]
        found = f"{OUTSIDE}/{target}" if not target.startswith("docs/") else target[5:]
        return posixpath.relpath(found, posixpath.dirname(here) or ".") + (link["anchor"] or "")

    return LINK.sub(moved, markdown)


def _outside(page: str, text: str) -> list[str]:
    found = (_target(page, link["to"]) for link in LINK.finditer(text))
    return [each for each in found if each is not None and not each.startswith("docs/")]


def _target(page: str, to: str) -> str | None:
    """Return the path in the repository of a link's target if the link must be rewritten, otherwise
    None. For a folder, it is the folder's README.md."""
    if "://" in to or to.startswith("mailto:"):
        return None
    path = posixpath.normpath(posixpath.join(posixpath.dirname(_source(page)), to))
    if (ROOT / path).is_dir():
        path = posixpath.join(path, "README.md")
    if not (ROOT / path).is_file():
        return None  # mkdocs itself reports the dead link
    inside = _source(page).startswith("docs/") and path.startswith("docs/")
    return None if inside and not to.endswith("/") else path


def _source(page: str) -> str:
    """Return the path in the repository of a page of the site."""
    outside = PurePosixPath(page).parts[0] == OUTSIDE
    return page.removeprefix(f"{OUTSIDE}/") if outside else f"docs/{page}"


def _text(page: str) -> str:
    return (ROOT / _source(page)).read_text()


def _copy(config: MkDocsConfig, uri: str, target: str) -> File:
    copy = File.generated(config, uri, abs_src_path=str(ROOT / target))
    copy.inclusion = InclusionLevel.NOT_IN_NAV
    return copy
