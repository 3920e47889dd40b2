"""Every link of a README or the changelog that stays in the repository leads to a file and a heading that exist."""

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
TOP = REPOSITORY / "README.md"
PACKAGES = ("connectors", "deploy", "domain", "ingress", "scheduler", "tests", "workers")
READMES = [TOP, *(readme for package in PACKAGES for readme in sorted((REPOSITORY / package).rglob("README.md")))]


def relative_links(document: Path) -> list[tuple[str, str]]:
    """Path and anchor of each link, without links to other sites."""
    links = re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8"))
    return [(link.partition("#")[0], link.partition("#")[2]) for link in links if "://" not in link]


def anchors(document: Path) -> set[str]:
    """The anchors of the headings, as the usual renderers of Markdown make them."""
    titles = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize(
    "document", [*READMES, REPOSITORY / "CHANGELOG.md"], ids=lambda path: str(path.relative_to(REPOSITORY))
)
def test_every_relative_link_leads_to_a_file_or_heading(document: Path) -> None:
    for path, anchor in relative_links(document):
        target = document.parent / path if path else document
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


def test_the_top_readme_leads_to_every_other_one() -> None:
    reached: set[Path] = set()
    unread = [TOP]
    while unread:
        document = unread.pop()
        reached.add(document)
        linked = {(document.parent / path).resolve() for path, _ in relative_links(document)}
        unread += [target for target in linked if target.name == "README.md" and target not in reached]

    assert reached >= set(READMES)
