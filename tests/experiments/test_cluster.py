"""Jobs on a Ray cluster of two nodes, against the same jobs done in this process."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.experiments.two_nodes import TINY, tiny_jobs, where

from experiments.cluster import RayExecutor, _knock, introduce
from experiments.jobs import in_order
from experiments.store import Store
from experiments.studies import STUDIES
from experiments.work import perform
from genan.errors import SettingError
from genan.version import __version__

pytestmark = pytest.mark.ray
needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None, reason="Ray is not installed"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Store]:
    """What happened on the cluster, and what it left. Ray warns and lingers: it has a process of
    its own."""
    root = tmp_path_factory.mktemp("cluster") / "jobs"
    repository = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tests.experiments.two_nodes", str(root)],
        cwd=repository,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.splitlines()) == 1, done.stdout[-3000:]  # Ray keeps quiet
    return json.loads(done.stdout), Store(root)


@needs_ray
def test_a_study_gives_the_same_numbers_as_here(
    cluster: tuple[dict[str, Any], Store], tmp_path: Path
) -> None:
    found, remote = cluster
    here, study = Store(tmp_path / "jobs"), STUDIES["history"]
    for job in in_order(study.jobs(TINY)):
        assert perform(job, here).result == remote.find(job).result  # type: ignore[union-attr]
    assert study.result(TINY, here).figures == study.result(TINY, remote).figures
    jobs = len(in_order(study.jobs(TINY)))
    assert (
        study.result(TINY, remote).complete
        and f"{jobs} jobs done now, 0 known already" in found["said"]
    )
    assert (found["done"], found["known"]) == (0, jobs)  # the same, asked for in Python


@needs_ray
def test_both_nodes_work_and_each_job_is_done_once(cluster: tuple[dict[str, Any], Store]) -> None:
    found, store = cluster
    places = [where(store, job) for job in in_order(tiny_jobs())]
    assert all(len(place) == 1 for place in places)
    assert len({node for ((node, _),) in places}) == 2
    assert found["words"] == "Ray cluster of 2 nodes, 2 cores" and found["room"] is False


@needs_ray
def test_what_goes_wrong_is_said_in_a_sentence(cluster: tuple[dict[str, Any], Store]) -> None:
    found, _ = cluster
    assert found["failed"] == ["The setting members must be at least 1, not 0."]
    mine, error = found["died"]
    assert (
        mine
        and error.startswith("its process on the node ")
        and error.endswith("ended; memory may have run out")
    )


@needs_ray
def test_a_job_moves_when_its_node_is_gone_and_stops_when_asked(
    cluster: tuple[dict[str, Any], Store],
) -> None:
    found, _ = cluster
    assert found["moved"] is True and found["shown"] == ["progress"]
    assert found["stopped"] == [True, "stopped"]


@needs_ray
def test_nothing_is_left(cluster: tuple[dict[str, Any], Store]) -> None:
    found, store = cluster
    assert found["left"] == [] and found["connected"] is False
    assert not list(store.root.glob(".*"))


def answering(answer: object) -> RayExecutor:
    """An executor whose nodes answer this."""

    def get(asked: object, timeout: float) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    errors = SimpleNamespace(GetTimeoutError=TimeoutError, RayError=RuntimeError)
    executor = RayExecutor.__new__(RayExecutor)
    executor._ray, executor._root = SimpleNamespace(get=get, exceptions=errors), Path("/data/jobs")
    return executor


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            (None, __version__),
            "The node far does not see /data/jobs; choose an --out on a file system that all nodes",
        ),
        (("other", __version__), "does not see /data/jobs"),
        (("token", "0.0.0"), f"The node far has genan 0.0.0, and not {__version__} as here"),
        (TimeoutError(), "The node far does not answer"),
        (
            RuntimeError("x\nModuleNotFoundError: No module named 'genan'"),
            "cannot work .*No module named 'genan'.*instal",
        ),
    ],
)
def test_a_node_that_cannot_take_part_is_named(answer: object, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        answering(answer)._check_node("far", object(), "token")


def test_a_node_reads_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "proof").write_text("token")
    assert introduce(str(tmp_path / "proof")) == ("token", __version__)
    assert introduce(str(tmp_path / "none")) == (None, __version__)
    answering(introduce(str(tmp_path / "proof")))._check_node("far", object(), "token")


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("127.0.0.1:9", "There is no Ray cluster at 127.0.0.1:9 that lets us in; start one"),
        ("127.0.0.1:99999", "There is no Ray cluster at 127.0.0.1:99999"),
        ("ray://head:10001", "as host:port, not ray://head:10001"),
        ("head", "as host:port, not head"),
    ],
)
def test_an_address_without_a_cluster_is_refused_at_once(address: str, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        _knock(address)


def test_without_ray_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SettingError, match=r"pip install genan\[ray\]"):
        RayExecutor(tmp_path)
