import gc
import os
import sys
import tempfile
import threading
import tomllib
from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import pytest
from jax._src.interpreters import mlir
from tests.browser import browser  # noqa: F401
from tests.commands import Answer, refusal, runner

# One compile cache for the whole run, for both of its processes and the commands that tests start,
# and none of the user's own.
_CACHE = tempfile.TemporaryDirectory(prefix="genan-test-cache-")
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["GENAN_CACHE_DIR"] = os.environ.get("GENAN_TEST_CACHE", _CACHE.name)
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(Path(os.environ["GENAN_CACHE_DIR"]) / "compiled")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
os.environ["MPLBACKEND"] = "Agg"

# Compiling is most of the tests' time: programs that run for milliseconds are compiled for seconds.
# XLA is therefore told to optimise little. It aborts at flags that it does not know, so each is set
# only where it exists: the older code generator, which compiles three times faster, was removed in
# 0.11.1. Flags of the user's own win. Programs run in the thread that asks for them, as they do for
# users (``genan.jax_setup.prepare``).
_FLAGS = ["--xla_backend_optimization_level=0", "--xla_cpu_parallel_codegen_split_count=1"]
if tuple(int(part) for part in version("jaxlib").split(".")[:3]) < (0, 11, 1):
    _FLAGS.append("--xla_cpu_use_fusion_emitters=false")
    _FLAGS.append("--xla_cpu_enable_concurrency_optimized_scheduler=false")
os.environ["XLA_FLAGS"] = " ".join([*_FLAGS, os.environ.get("XLA_FLAGS", "")]).strip()
jax.config.update("jax_cpu_enable_async_dispatch", False)
# JAX has read its environment by now.
jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)

# Every program of a single operation, and there are thousands, would register MLIR's dialects
# again, a fifth of the time that it takes. Each thread has one context instead.
_CONTEXTS, _make_context = threading.local(), mlir.make_ir_context


def _context() -> Any:
    if not hasattr(_CONTEXTS, "context"):
        _CONTEXTS.context = _make_context()
    return _CONTEXTS.context


mlir.make_ir_context = _context

# Tracing makes millions of objects, and almost none is garbage in a cycle.
gc.set_threshold(100_000, 20, 50)


def _use_the_entry_points_of_this_tree() -> None:
    """Where genan is imported from ``src`` and not installed, its robots are found all the same."""
    root = Path(__file__).parents[1]
    spec = find_spec("genan")
    if spec is None or not str(spec.origin).startswith(str(root / "src")):
        return
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    made = Path(_CACHE.name) / "entry-points" / "genan-0.dist-info"
    made.mkdir(parents=True)
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: genan\nVersion: 0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in project["entry-points"].items()
    ]
    (made / "entry_points.txt").write_text("\n".join(lines))
    sys.path.insert(0, str(made.parent))
    paths = [str(made.parent), str(root / "src"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


_use_the_entry_points_of_this_tree()

#: The longest files come first, so that no process is left alone with one of them at the end.
LONGEST = (
    "experiments/test_main.py",
    "docs/test_commands.py",
    "experiments/test_cluster.py",
    "examples/test_examples.py",
    "benchmarks/test_real_logs.py",
    "test_any_robot.py",
    "cli/test_fit.py",
    "evaluation/test_transfer.py",
    "cli/test_collect.py",
    "robots/pamy2/test_identification.py",
    "robots/pamy2/test_robot.py",
    "dynamics/test_against_mujoco.py",
    "rl/test_train.py",
)


@pytest.hookimpl(tryfirst=True)  # before -m looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    places = {here / name: place for place, name in enumerate(LONGEST)}
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.fixture(autouse=True)
def every_program_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of a single operation are kept too: there are thousands, and taking one up costs a
    sixth of compiling it. Commands run in this process would keep only those that users keep."""
    from genan import jax_setup  # not before types are checked in it

    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    prepare = jax_setup.prepare

    def as_users_have_it_but_for_that() -> None:
        prepare()
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)

    monkeypatch.setattr(jax_setup, "prepare", as_users_have_it_but_for_that)


@pytest.fixture(autouse=True)
def few_held_controls(monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluation of a virtual robot's recording plays few held controls on it, not 64."""
    monkeypatch.setattr("genan.evaluation.held_control.MADE", 4)


@pytest.fixture
def repository() -> Path:
    return Path(__file__).parents[1]


@pytest.fixture
def genan(capsys: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Run a command in this process, as ``genan ARGUMENTS`` would."""
    from genan.cli import main

    return runner(main, capsys)


@pytest.fixture
def refused(genan: Callable[..., Answer]) -> Callable[..., str]:
    """Run a command that must be refused in one sentence; returns the sentence."""
    return refusal("genan", genan)
