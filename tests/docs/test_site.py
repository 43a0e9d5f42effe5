"""The documentation: its links hold where the repository is looked at and on the site, which builds
with no warning and asks no other host for anything.
"""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urldefrag

import pytest

from genan import __version__

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[2]
DOCS, SOURCE = ROOT / "docs", ROOT / "src" / "genan"
OUTSIDE = ("http:", "https:", "//", "mailto:")
#: Of a Markdown file: fenced blocks and code, which hold no links; links and pictures; headings.
CODE, LINK, HEADING = (
    re.compile(r"```.*?```|`[^`\n]*`", re.S),
    re.compile(r"\]\(([^)\s]+)\)"),
    re.compile(r"^#+ +(.+)$", re.M),
)
#: Packages that a user imports from, and what is in ``__all__`` of each.
PACKAGES = [
    *(
        folder.parent
        for folder in sorted(SOURCE.glob("*/__init__.py"))
        if folder.parent.name != "cli"
    )
]


def markdown() -> list[Path]:
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


@pytest.mark.parametrize("path", markdown(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_hold_in_the_repository(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for link in LINK.findall(CODE.sub("", text)):
        if link.startswith(OUTSIDE):
            continue
        target, anchor = urldefrag(link)
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), f"{path.name} links to {link}"
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), (
                f"{path.name} links to {link}"
            )


def anchors(text: str) -> set[str]:
    """The names that code hosts give to headings: small letters, words joined by hyphens,
    everything else left out."""
    headings = HEADING.findall(re.sub(r"```.*?```", "", text, flags=re.S))
    return {
        re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings
    }


def test_the_citation_names_this_version() -> None:
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as ``make docs`` does."""
    missing = [
        name
        for name in ("mkdocs", "material", "mkdocstrings_handlers")
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        pytest.skip(f"the site needs pip install genan[docs] ({', '.join(missing)} missing)")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


class Page(HTMLParser):
    """What a page asks for, leads to, and can be led to in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.assets: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link":
            self.assets.append(given["href"])
        self.assets += [
            given[name] for name in ("src", "srcset", "data", "poster") if given.get(name)
        ]
        self.ids |= {given[name] for name in ("id", "name") if name in given}


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def test_nothing_is_asked_of_other_hosts(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        assert page.assets, path
        assert not [asset for asset in page.assets if asset.startswith(OUTSIDE)], path
    for sheet in site.rglob("*.css"):
        assert not re.search(
            r"(url\(|@import)\s*[\"']?\s*(https?:)?//", sheet.read_text(encoding="utf-8")
        ), sheet


def test_links_hold_on_the_site(site: Path, pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        if path.name == "404.html":  # its links begin at the site's root, wherever it is shown
            continue
        for link in page.links:
            if link.startswith(OUTSIDE):
                continue
            target, anchor = urldefrag(unquote(link))
            file = (path.parent / target).resolve() if target else path
            file = file / "index.html" if file.is_dir() else file
            assert file.is_file(), f"{path.name} leads to {link}"
            if anchor and file in pages:
                assert anchor in pages[file].ids, f"{path.name} leads to {link}"


@pytest.mark.parametrize(
    "package", PACKAGES, ids=lambda package: package.relative_to(SOURCE).as_posix()
)
def test_every_package_is_in_the_reference(
    package: Path, site: Path, pages: dict[Path, Page]
) -> None:
    path = site / "reference" / f"{package.name}.html"
    assert path in pages
    name = ".".join(("genan", *package.relative_to(SOURCE).parts))
    for public in names(package / "__init__.py"):
        ids = {
            f"{name}.{public}",
            f"{name}.{public}.{public}",
        }  # a function may have the name of its module
        assert ids & pages[path].ids, public
    assert any(found.startswith(f"{name}.") for found in pages[path].ids)


def names(file: Path) -> Iterator[str]:
    """What a package says it offers."""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            yield from ast.literal_eval(node.value)


def test_every_page_is_in_the_navigation(site: Path, pages: dict[Path, Page]) -> None:
    reached = {
        (site / urldefrag(link).url).resolve()
        for link in pages[site / "index.html"].links
        if "//" not in link
    }
    for page in DOCS.rglob("*.md"):
        assert site / page.relative_to(DOCS).with_suffix(".html") in reached, page


def test_links_out_of_docs_lead_to_pages_made_for_them(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("mkdocs", reason="the site needs pip install genan[docs]")
    spec = importlib.util.spec_from_file_location(
        "repository_pages", DOCS / "hooks" / "repository_pages.py"
    )
    assert spec and spec.loader
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    page = SimpleNamespace(file=SimpleNamespace(src_uri="reference/data.md"))
    config, files = (
        SimpleNamespace(docs_dir=str(DOCS)),
        SimpleNamespace(src_uris={"changes.md": None}),
    )

    def led(link: str) -> str:
        return hook.on_page_markdown(f"[x]({link})", page=page, config=config, files=files)

    assert led("../../CHANGELOG.md#a") == "[x](../changes.md#a)"
    assert led("../robots.md") == "[x](../robots.md)"
    assert not caplog.records
    led("../../Makefile")
    assert "no page on the site" in caplog.text
