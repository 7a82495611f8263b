"""Links between pages lead to existing files and headings."""

from pathlib import Path

import pytest

from .pages import ROOT, anchors_of, links_of

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
PAGES += sorted((ROOT / "examples").rglob("*.md"))


def broken(page: Path) -> list[str]:
    return [link for link in links_of(page) if not leads_somewhere(page, link)]


def leads_somewhere(page: Path, link: str) -> bool:
    if link.startswith(("https://", "http://")):
        return True
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.exists():
        return False
    return not anchor or anchor in anchors_of(target)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_every_page_of_docs_is_in_the_index() -> None:
    docs = ROOT / "docs"
    index = docs / "README.md"
    listed = {(docs / link.partition("#")[0]).resolve() for link in links_of(index)}
    # Decisions have an index of their own.
    pages = {page for page in PAGES if docs in page.parents}
    pages -= set((docs / "decisions").glob("*.md"))
    assert pages - listed - {index} == set(), "list them in docs/README.md"


@pytest.mark.parametrize("link", ["missing.md", "page.md#missing", "#missing"])
def test_a_broken_link_is_found(link: str, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n[text]({link})\n")
    assert broken(page) == [link]
