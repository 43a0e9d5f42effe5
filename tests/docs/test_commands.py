"""Every command on every page runs, in order, each page in a folder of its own.

Commands run as they are written, but for what the tables in ``tests/docs/settings.py`` say: flags that are made small,
verbs that other tests run and that are only parsed here, and lines that cannot run on a test machine. What is in no
table runs: a new page is covered the moment it is written.
"""

import contextlib
import hashlib
import importlib
import keyword
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.docs.blocks import PAGES, ROOT, Command, Program, inline, name_of, steps
from tests.docs.settings import (
    ELSEWHERE,
    IMPORTS_ONLY,
    NOT_RUN,
    PRELUDES,
    PREPARED,
    REPLACED,
    SMALLER,
    given,
)

from genan.cli import VERBS, main

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


class Kitchen:
    """Runs commands, and hands out what they made where the same command comes again, on the same files."""

    def __init__(self, store: Path) -> None:
        self._store, self._made = store, dict[tuple[tuple[str, str], ...], Path]()

    def run(self, words: tuple[str, ...], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """``genan WORDS`` in ``folder``."""
        order = tuple((word, digest(folder / word)) for word in words)
        if order not in self._made:
            before = snapshot(folder)
            with contextlib.chdir(folder):
                code, out, err = run_genan(words, capsys)
            assert code == 0, f"genan {' '.join(words)}\n{out}{err}"
            kept = self._made[order] = self._store / str(len(self._made))
            for path in changed(before, snapshot(folder)):
                (kept / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(folder / path, kept / path)
        elif self._made[order].exists():
            shutil.copytree(self._made[order], folder, dirs_exist_ok=True)


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> Kitchen:
    return Kitchen(tmp_path_factory.mktemp("made"))


@pytest.mark.parametrize("page", [page for page in PAGES if steps(page)], ids=name_of)
def test_the_page_runs(page: Path, kitchen: Kitchen, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = name_of(page)
    for what in PREPARED.get(name, ()):
        made_by = given(what, tmp_path)
        for words in made_by:
            kitchen.run(smaller(words), tmp_path, capsys)
    names: dict[str, Any] = {"__name__": "docs"}
    exec(PRELUDES.get(name, ""), names)
    for step in steps(page):
        if isinstance(step, Program):
            run_program(step, names, tmp_path)
        elif step.words[0] == "genan":
            run_command(step, kitchen, tmp_path, capsys)
        else:
            run_other(step, tmp_path)


def run_command(step: Command, kitchen: Kitchen, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = step.words[1:]
    parse(words, str(step))
    verb, out = words[0], words[words.index("--out") + 1] if "--out" in words else None
    if verb in ELSEWHERE:
        assert (ROOT / ELSEWHERE[verb][1]).is_file(), f"{verb} is said to be run by {ELSEWHERE[verb][1]}"
    elif " ".join(step.words) not in NOT_RUN:
        if out in PREPARED.get(step.page, ()):  # what was given to the commands before is now made anew
            (folder / out).unlink() if (folder / out).is_file() else shutil.rmtree(folder / out, ignore_errors=True)
        kitchen.run(smaller(words), folder, capsys)


def run_program(step: Program, names: dict[str, Any], folder: Path) -> None:
    """A block of Python, with the names that the blocks before it have left; or its imports alone."""
    text = step.text
    for old, new in REPLACED.items():
        text = text.replace(old, new)
    if step.page in IMPORTS_ONLY:
        compile(step.text, str(step), "exec")
        text = "\n".join(re.findall(r"^(?:from genan\S* )?import genan.*$|^from genan\S* import .*$", step.text, re.M))
    with contextlib.chdir(folder):
        sys.path.insert(0, str(folder / "robot" / "actuators"))  # where a page exports to
        try:
            exec(compile(text, str(step), "exec"), names)
        finally:
            sys.path.pop(0)
            sys.modules.pop("numpy_runtime", None)


def run_other(step: Command, folder: Path) -> None:
    """Commands that are not genan's."""
    program, *rest = step.words
    if " ".join(step.words) in NOT_RUN:
        return
    if program == "pip":
        asked = re.findall(r"\[([\w,]+)\]", " ".join(rest))
        assert asked and {extra for part in asked for extra in part.split(",")} <= set(EXTRAS), str(step)
    elif program == "make":
        assert re.search(rf"^{rest[0]}:", (ROOT / "Makefile").read_text(), re.M), str(step)
    elif program == "python":
        run_python(step, rest, folder)
    else:
        raise AssertionError(f"{step} runs {program}, which the tests do not know how to run")


def run_python(step: Command, rest: list[str], folder: Path) -> None:
    if rest[0].startswith("benchmarks/"):  # they need logs that are not in the repository
        text = (ROOT / rest[0]).read_text()
        flags = [word for word in rest if word.startswith("--")]
        assert all(f'"{flag}"' in text or flag[2:].replace("-", "_") in text for flag in flags), str(step)
        return
    small = ["5" if before == "-n" else word for before, word in zip(["", *rest], rest, strict=False)]
    where = folder / "robot" / "actuators" if "timeit" in rest else folder
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, *small], cwd=where, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{step}\n{done.stderr}"


def parse(words: tuple[str, ...], where: str) -> None:
    """The real command line understands the command."""
    import tyro

    verb, *rest = words
    if verb.startswith("-"):
        return
    assert verb in VERBS, f"{where}: there is no verb {verb}"
    module = importlib.import_module(f"genan.cli.{verb.replace('-', '_')}" + "_" * keyword.iskeyword(verb))
    try:
        if hasattr(module, "parse"):
            module.parse(rest)
        else:
            tyro.cli(getattr(module, verb.title().replace("-", "")), args=rest, console_outputs=False)
    except SystemExit as stop:
        assert not stop.code, f"{where}: genan does not understand it"


def smaller(words: tuple[str, ...]) -> tuple[str, ...]:
    """A command with the flags of ``SMALLER`` in place of its own."""
    result = list(words)
    for flag, values in SMALLER.get(words[0], {}).items():
        if flag in result:
            place = result.index(flag)
            end = next((k for k in range(place + 1, len(result)) if result[k].startswith("--")), len(result))
            del result[place:end]
        if values is not None:
            result += [flag, *values]
    return tuple(result)


def run_genan(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    capsys.readouterr()
    try:
        code = main(list(words))
    except SystemExit as stop:
        code = int(stop.code or 0)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def digest(path: Path) -> str:
    """Of what lies at ``path``; '' where there is nothing."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    found = hashlib.sha256()
    for file in files:
        if file.is_file():
            found.update(str(file.relative_to(path)).encode() + file.read_bytes())
    return found.hexdigest() if path.exists() else ""


def snapshot(folder: Path) -> dict[Path, tuple[int, int]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder): (path.stat().st_mtime_ns, path.stat().st_size) for path in files}


def changed(before: dict[Path, tuple[int, int]], after: dict[Path, tuple[int, int]]) -> list[Path]:
    return [path for path, state in after.items() if before.get(path) != state]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_in_the_text_exist(page: Path, help_of: dict[str, str]) -> None:
    for command in inline(page):
        verb, *rest = command.words[1:]
        if verb.isupper() or verb.startswith("-"):
            continue
        assert verb in VERBS, str(command)
        for word in rest:
            if word.startswith("--") and word != "--help":
                flag = re.escape(re.split("[=.]", word)[0])
                assert re.search(rf"{flag}\b", help_of[verb]), f"{command}: there is no flag {word}"


@pytest.fixture(scope="module")
def help_of() -> dict[str, str]:
    """What ``genan VERB --help`` says, by verb."""
    import io

    said = {}
    for verb in VERBS:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
            main([verb, "--help"])
        said[verb] = out.getvalue()
    return said


def test_the_tables_hold_nothing_that_is_gone() -> None:
    typed = {" ".join(step.words) for page in PAGES for step in steps(page) if isinstance(step, Command)}
    assert set(NOT_RUN) <= typed
    pages = {name_of(page) for page in PAGES}
    assert {*PREPARED, *PRELUDES, *IMPORTS_ONLY} <= pages
    verbs = {command.split()[1] for command in typed if command.startswith("genan ")}
    assert {*ELSEWHERE, *SMALLER} <= set(VERBS) and set(ELSEWHERE) & verbs
    text = "\n".join(page.read_text() for page in PAGES)
    assert all(old in text for old in REPLACED)
