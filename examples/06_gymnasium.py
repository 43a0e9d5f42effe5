"""A task in Gymnasium: one robot for a look, many robots for a trainer of your own.

`import genan.rl.gymnasium` registers `genan/reacher-v0`, `genan/ball-in-a-cup-v0` and
`genan/table-tennis-v0`. An action is, for each control, the part of the task's largest change that
is added to it: -1 to 1. Episodes have a fixed length, so they are truncated, never terminated.
`make_vec` steps all robots in one compiled program and begins an episode that ends again in the
same step; its last observation is in `infos["final_obs"]`.

    pip install genan[gymnasium]
    python examples/06_gymnasium.py runs/pamy2
"""

import sys

import gymnasium
import numpy as np

import genan.rl.gymnasium  # noqa: F401  (registers the tasks)

ENVS = 16
POOL = 32  # settled robots that episodes start from


def main(folder: str) -> None:
    env = gymnasium.make("genan/reacher-v0", actuators=folder, pool=POOL)
    env.reset(seed=0)
    total, ended = 0.0, False
    while not ended:
        action = np.zeros(env.action_space.shape, np.float32)  # your policy
        _, reward, _, ended, info = env.step(action)
        total += float(reward)
    print(
        f"one robot that does nothing: return {total:.2f}, error {info['metrics']['error']:.2f} deg"
    )
    env.close()

    envs = gymnasium.make_vec("genan/reacher-v0", num_envs=ENVS, actuators=folder, pool=POOL)
    envs.reset(seed=0)
    envs.action_space.seed(0)
    returns = np.zeros(ENVS)
    while True:
        _, rewards, _, truncated, infos = envs.step(envs.action_space.sample())
        returns += rewards
        if truncated.all():
            break
    errors = infos["final_info"]["metrics"]["error"]
    print(f"{ENVS} robots at random: return {returns.mean():.2f}, error {errors.mean():.2f} deg")
    envs.close()


if __name__ == "__main__":
    main(sys.argv[1])
