"""Every command on every page runs, in order, each page in a folder of its own.

Commands run as they are written, but for what the tables in ``tests/docs/settings.py`` say: flags
that are made small, and lines that other tests run, where what they need is at hand; here they are
parsed, and the other test is looked up. What is in no table runs: a new page is covered the moment
it is written. A line that would take minutes is refused until some test runs it.
"""

import ast
import contextlib
import hashlib
import importlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.docs.blocks import PAGES, ROOT, Command, Program, inline, name_of, steps
from tests.docs.programs import programs
from tests.docs.settings import (
    ADDED,
    BLOCKS_ELSEWHERE,
    ELSEWHERE,
    LONG,
    PRELUDES,
    PREPARED,
    REPLACED,
    SMALLER,
    given,
)
from tests.docs.typed import lines

from genan.cli import VERBS, main
from genan.cli import command as parse_command

pytestmark = pytest.mark.docs

EXPERIMENTS = ("python", "-m", "experiments")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


class Kitchen:
    """Runs commands, and hands out what they made where the same command comes again, on the same
    files."""

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
def test_the_page_runs(
    page: Path, kitchen: Kitchen, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
        elif step.words[:3] == EXPERIMENTS:
            check_experiments(step)
            assert elsewhere(step), f"nothing runs {step}: name a test in ELSEWHERE that does"
        elif step.words[0] == "genan":
            parse(step.words[1:], str(step))
            if not elsewhere(step):
                run_command(step, kitchen, tmp_path, capsys)
        elif not elsewhere(step):
            run_other(step, tmp_path)


def elsewhere(step: Command) -> bool:
    """Whether another test runs it; one that is said to and does not fails here."""
    line = " ".join(step.words)
    if line not in ELSEWHERE:
        return False
    assert line in typed_in(ROOT / ELSEWHERE[line]), (
        f"{step} is said to be run by {ELSEWHERE[line]}, which does not"
    )
    return True


def run_command(
    step: Command, kitchen: Kitchen, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = step.words[1:]
    verb, out = words[0], words[words.index("--out") + 1] if "--out" in words else None
    assert verb not in LONG, (
        f"nothing runs {step}: give it to typed() in a test that runs genan {verb}, and name that "
        "test in ELSEWHERE"
    )
    if out in PREPARED.get(step.page, ()):  # given to the commands before, made again by this one
        if (folder / out).is_file():
            (folder / out).unlink()
        else:
            shutil.rmtree(folder / out, ignore_errors=True)
    kitchen.run(smaller(words), folder, capsys)


def run_program(step: Program, names: dict[str, Any], folder: Path) -> None:
    """A block of Python, with the names that the blocks before it have left."""
    number = programs(step.page).index(step)
    if (step.page, number) in BLOCKS_ELSEWHERE:
        test = BLOCKS_ELSEWHERE[step.page, number]
        called = f'run_block("{step.page}", {number}'
        assert called in (ROOT / test).read_text(), f"{step} is said to be run by {test}"
        return
    text = step.text
    for old, new in REPLACED.items():
        text = text.replace(old, new)
    exported = [
        str(folder / "robot" / what) for what in ("actuators", "policy")
    ]  # where pages export to
    with contextlib.chdir(folder):
        sys.path[:0] = exported
        importlib.invalidate_caches()  # an earlier block may have looked before there was anything
        try:
            exec(compile(text, str(step), "exec"), names)
        finally:
            del sys.path[: len(exported)]
            for module in ("numpy_runtime", "numpy_policy"):
                sys.modules.pop(module, None)


def run_other(step: Command, folder: Path) -> None:
    """Commands that are not genan's.

    ``pip`` is looked at only: what the pages install, one test installs at once. So is ``make``:
    ``make demo`` takes minutes, and ``make test`` is what runs this.
    """
    program, *rest = step.words
    if program == "pip":
        asked = re.findall(r"\[([\w,]+)\]", " ".join(rest))
        assert asked and {extra for part in asked for extra in part.split(",")} <= set(EXTRAS), str(
            step
        )
        assert rest[0] == "install" and all(word.startswith((".[", "genan[")) for word in rest[1:])
    elif program == "make":
        assert re.search(rf"^{rest[0]}:", (ROOT / "Makefile").read_text(), re.M), str(step)
    elif program == "python":
        run_python(step, rest, folder)
    else:
        raise AssertionError(f"{step} runs {program}, which the tests do not know how to run")


def test_what_the_pages_install_is_there() -> None:
    """``pip`` finds everything installed, genan from this folder, and asks no index."""
    commands = [step for page in PAGES for step in steps(page) if isinstance(step, Command)]
    asked = {word for step in commands if step.words[0] == "pip" for word in step.words[2:]}
    assert asked
    wanted = sorted(word.replace(".[", "genan[") for word in asked)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *wanted, "--no-index"],
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0 and "does not provide" not in done.stderr, done.stderr


def run_python(step: Command, rest: list[str], folder: Path) -> None:
    small = [
        "5" if before == "-n" else word for before, word in zip(["", *rest], rest, strict=False)
    ]
    if rest[0].startswith("benchmarks/"):
        small[0] = str(ROOT / rest[0])
        if "--out" in rest:
            (folder / rest[rest.index("--out") + 1]).parent.mkdir(parents=True, exist_ok=True)
    small += ADDED.get(" ".join(step.words), ())
    where = folder / "robot" / "actuators" if "timeit" in rest else folder
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, *small], cwd=where, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{step}\n{done.stderr}"


def parse(words: tuple[str, ...], where: str) -> None:
    """The real command line understands the command."""

    verb, *rest = words
    if verb.startswith("-"):
        return
    assert verb in VERBS, f"{where}: there is no verb {verb}"
    try:
        parse_command(verb, rest)
    except SystemExit as stop:
        assert not stop.code, f"{where}: genan does not understand it"


def smaller(words: tuple[str, ...]) -> tuple[str, ...]:
    """A command with the flags of ``SMALLER`` in place of its own."""
    result = list(words)
    for flag, values in SMALLER.get(words[0], {}).items():
        if flag in result:
            place = result.index(flag)
            end = next(
                (k for k in range(place + 1, len(result)) if result[k].startswith("--")),
                len(result),
            )
            del result[place:end]
        result += [flag, *values]
    return tuple(result)


@cache
def typed_in(test: Path) -> frozenset[str]:
    """The lines that a test runs: the first arguments of its calls of ``typed``, where they are
    written there."""
    calls = [
        node
        for node in ast.walk(ast.parse(test.read_text()))
        if isinstance(node, ast.Call) and node.args
    ]
    first = [
        call.args[0]
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == "typed"
    ]
    return frozenset(word.value for word in first if isinstance(word, ast.Constant))


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
    return {
        path.relative_to(folder): (path.stat().st_mtime_ns, path.stat().st_size) for path in files
    }


def changed(before: dict[Path, tuple[int, int]], after: dict[Path, tuple[int, int]]) -> list[Path]:
    return [path for path, state in after.items() if before.get(path) != state]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_in_the_text_exist(page: Path, help_of: dict[str, str]) -> None:
    for command in inline(page):
        if command.words[0] == "python":
            check_experiments(command)
            continue
        verb, *rest = command.words[1:]
        if verb.isupper() or verb.startswith("-"):
            continue
        assert verb in VERBS, str(command)
        for word in rest:
            if word.startswith("--") and word != "--help":
                flag = re.escape(re.split("[=.]", word)[0])
                assert re.search(rf"{flag}\b", help_of[verb]), f"{command}: there is no flag {word}"


def check_experiments(command: Command) -> None:
    """Names and flags of ``python -m experiments`` in a line or in the text are understood."""
    import tyro

    from experiments.__main__ import Experiments

    words = ["all" if word.isupper() else word for word in command.words[3:]]
    try:
        tyro.cli(Experiments, args=words, console_outputs=False)._wanted()
    except SystemExit:
        raise AssertionError(f"{command}: experiments does not understand it") from None


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
    gone = {*ELSEWHERE, *ADDED} - lines()
    assert not gone
    pages = {name_of(page) for page in PAGES}
    assert {*PREPARED, *PRELUDES} <= pages
    assert all(number < len(programs(page)) for page, number in BLOCKS_ELSEWHERE)
    assert {*LONG, *SMALLER} <= set(VERBS) and not set(LONG) & set(SMALLER)
    text = "\n".join(page.read_text() for page in PAGES)
    assert all(old in text for old in REPLACED)
