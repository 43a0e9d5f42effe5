import jax.numpy as jnp
import numpy as np

from genan.rl.ppo import estimate_advantages, normalise


def test_a_worked_example() -> None:
    """Discount 1/2, trace 1/2, four steps; the first episode ends after its second step, the other
    after its fourth.

    A_t = r_t - V_t + 1/2 (V_t+1 + A_t+1 / 2), without the bracket at an end.
    First:  A_3 = 4 - 1 + 1/2 (6 + 0) = 6        A_2 = 3 - 2 + 1/2 (1 + 3) = 3
            A_1 = 2 - 3         = -1 (an end)    A_0 = 1 - 4 + 1/2 (3 - 1/2) = -1.75
    Second: A_3 = 0 - 2         = -2 (an end)    A_2 = 1 - 0 + 1/2 (2 - 1) = 1.5
            A_1 = 0 - 4 + 1/2 (0 + 3/4) = -3.625 A_0 = 2 - 0 + 1/2 (4 - 1.8125) = 3.09375
    """
    reward = jnp.array([[1.0, 2.0], [2.0, 0.0], [3.0, 1.0], [4.0, 0.0]])
    value = jnp.array([[4.0, 0.0], [3.0, 4.0], [2.0, 0.0], [1.0, 2.0]])
    terminal = jnp.array([[False, False], [True, False], [False, False], [False, True]])
    advantage = estimate_advantages(
        reward, value, jnp.array([6.0, 100.0]), terminal, gamma=0.5, gae_lambda=0.5
    )
    by_hand = [[-1.75, 3.09375], [-1.0, -3.625], [3.0, 1.5], [6.0, -2.0]]
    np.testing.assert_allclose(advantage, by_hand, rtol=1e-6)


def test_with_trace_1_it_is_the_discounted_sum_of_rewards_less_the_value() -> None:
    rng = np.random.default_rng(0)
    reward, value = rng.normal(size=(2, 40, 3))
    last = rng.normal(size=3)
    terminal = np.zeros((40, 3), bool)
    terminal[19] = True
    advantage = estimate_advantages(
        *map(jnp.asarray, (reward, value, last, terminal)), gamma=0.9, gae_lambda=1.0
    )
    for start, stop, tail in ((0, 20, 0.0), (20, 40, last)):
        for t in range(start, stop):
            steps = np.arange(stop - t)
            total = (0.9**steps) @ reward[t:stop] + 0.9 ** (stop - t) * tail
            np.testing.assert_allclose(advantage[t], total - value[t], rtol=1e-4, atol=1e-5)


def test_normalised_over_everything() -> None:
    advantage = np.random.default_rng(1).normal(3.0, 5.0, (7, 4))
    np.testing.assert_allclose(
        normalise(jnp.asarray(advantage)),
        (advantage - advantage.mean()) / advantage.std(),
        rtol=1e-4,
        atol=1e-6,
    )
    np.testing.assert_array_equal(normalise(jnp.full((3, 2), 4.0)), np.zeros((3, 2)))
