"""The memoryless shuffle is a permutation, a different one for every word, and looks random."""

import jax.numpy as jnp
import numpy as np
import pytest

from genan.actuator.training import shuffled


def order(count: int, word: tuple[int, int]) -> np.ndarray:
    return np.asarray(shuffled(jnp.arange(count), count, jnp.asarray(word, jnp.uint32)))


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3, 10, 97, 1000, 10_001, 47_808, 1_000_003])
def test_every_number_comes_once(count: int) -> None:
    for word in ((0, 0), (1, 2), (4_000_000_000, 77)):
        assert np.array_equal(np.sort(order(count, word)), np.arange(count))


def test_words_give_unrelated_orders() -> None:
    n = 20_000
    orders = [order(n, word) for word in ((0, 0), (0, 1), (1, 0), (123, 456))]
    for k, one in enumerate([np.arange(n), *orders]):
        for other in orders[k:]:
            assert abs(np.corrcoef(one, other)[0, 1]) < 0.04  # five standard deviations
            assert (one == other).sum() < 12


def test_neighbours_are_scattered() -> None:
    """A batch of consecutive places has as many samples of each tenth as chance gives, and no steps
    are preferred."""
    n, batch = 50_000, 1000
    found = order(n, (9, 9))
    counts = np.stack(
        [np.bincount(part // (n // 10), minlength=10) for part in found.reshape(-1, batch)]
    )
    chi = ((counts - batch / 10) ** 2 / (batch / 10)).sum(axis=1).mean()
    assert 6.5 < chi < 11.5  # nine degrees of freedom
    steps = np.diff(found) % n
    assert np.bincount(steps, minlength=n).max() < 12
