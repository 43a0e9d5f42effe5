"""jax-ml/jax#39103: sums that come out wrong without a word."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests import users_numbers

from genan.jax_setup import avoid_wrong_sums, check_sums

FLAG = "--xla_cpu_experimental_ynn_fusion_type="


def test_sums_are_right_here() -> None:
    check_sums()


@pytest.mark.slow
def test_the_compiler_as_users_have_it_gives_the_tests_numbers(tmp_path: Path) -> None:
    """The tests compile with flags of their own (conftest.py); a fault that only full optimisation
    has shows here."""
    environment = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    command = [sys.executable, users_numbers.__file__, tmp_path / "numbers.npz"]
    subprocess.run(command, env=environment, check=True)
    with np.load(tmp_path / "numbers.npz") as users:
        for name, ours in users_numbers.numbers().items():
            np.testing.assert_allclose(
                ours, users[name], rtol=1e-4, atol=1e-5 * np.abs(ours).max(), err_msg=name
            )


def test_a_choice_of_the_users_own_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XLA_FLAGS", f"{FLAG}dot")
    avoid_wrong_sums()
    assert os.environ["XLA_FLAGS"] == f"{FLAG}dot"


def test_the_flag_is_added_to_the_users_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genan.jax_setup.version", lambda package: "0.11.0")
    monkeypatch.setenv("XLA_FLAGS", "--other=1")
    avoid_wrong_sums()
    assert os.environ["XLA_FLAGS"] == f"--other=1 {FLAG}"


def test_releases_that_do_not_know_the_flag_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genan.jax_setup.version", lambda package: "0.9.2")
    monkeypatch.setenv("XLA_FLAGS", "")
    avoid_wrong_sums()
    assert os.environ["XLA_FLAGS"] == ""


@pytest.mark.slow
def test_jax_started_too_early_is_noticed() -> None:
    """Either this release is sound, or the check says in one sentence what to do."""
    code = "import jax; jax.numpy.ones(3).sum(); import genan.jax_setup as c; c.check_sums()"
    environment = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 or "import genan before JAX" in done.stderr
