"""What the site needs beyond docs/: examples, changelog and CONTRIBUTING as pages, and links to
files of the repository.

In docs/ a link such as ``../examples/04_drive_a_mujoco_loop.py`` holds where the repository is
looked at. On the site the file is a page of its own, made here from the file; a link to a file that
has none is a warning, which ends a strict build.
"""

import ast
import logging
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

LOG = logging.getLogger("mkdocs.hooks.genan")
#: Files of the repository that are pages of the site.
PAGES = {"CHANGELOG.md": "changes.md", "CONTRIBUTING.md": "contributing.md"}
#: A link of Markdown that leads out of a folder: what stands before, the path, and its anchor.
OUTWARD = re.compile(r"(?P<before>\]\()(?P<path>\.\./[^)\s#]+)(?P<anchor>#[^)\s]*)?(?=\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each example and for each of ``PAGES``."""
    root = Path(config.config_file_path).parent
    for example in sorted((root / "examples").glob("*.py")):
        page = page_of(f"examples/{example.name}")
        files.append(File.generated(config, page, content=example_page(example)))
    for name, page in PAGES.items():
        text = (root / name).read_text(encoding="utf-8").replace("](docs/", "](")
        text = re.sub(r"\]\((examples/\w+)\.py\)", r"](\1.md)", text)
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to files of the repository to their pages."""
    here = posixpath.dirname(page.file.src_uri)
    docs = posixpath.basename(config.docs_dir)

    def led(link: re.Match[str]) -> str:
        # As seen from the repository's root.
        inside = posixpath.normpath(posixpath.join(docs, here, link["path"]))
        if inside.startswith(f"{docs}/"):
            return link[0]
        target = page_of(inside)
        if target not in files.src_uris:
            LOG.warning("%s links to %s, which has no page on the site", page.file.src_uri, inside)
            return link[0]
        return f"{link['before']}{posixpath.relpath(target, here or '.')}{link['anchor'] or ''}"

    return OUTWARD.sub(led, markdown)


def page_of(path: str) -> str:
    """The page on the site that shows a file of the repository."""
    return PAGES.get(path) or re.sub(r"\.py$", ".md", path)


def example_page(example: Path) -> str:
    """An example as a page: the first line of its docstring as the title, the rest as text, and the
    program."""
    source = example.read_text(encoding="utf-8")
    title, _, rest = (ast.get_docstring(ast.parse(source)) or example.stem).partition("\n")
    source = re.sub(r'\A""".*?"""\n+', "", source, flags=re.S)
    block = f'```python title="examples/{example.name}"\n{source}```'
    return f"# {title.rstrip('.:')}\n\n{rest.strip()}\n\n{block}\n"
