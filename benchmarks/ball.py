r"""Recorded table-tennis balls against the models: fit a launcher to them, and check what is
predicted of them.

    python benchmarks/ball.py fit --data ball_trajectories.npz --group originals_2019 \
        --camera-group aimy_nospin_1140rpm --out src/genan/tasks/ball/library/ballgun-2019.json
    python benchmarks/ball.py check --data ball_trajectories.npz
    python benchmarks/ball.py steps

``fit`` writes a launcher's JSON file; the bundled ``ballgun-2019`` was made by the first line.
``check`` fits drag, spin and bounce to the first half of each group, filters the first 0.3 s of
every ball of the second half, predicts it through its bounce to the racket's plane, and says by how
much it misses; and it sets balls of the bundled launcher next to recorded ones. ``steps`` measures
what the length of a step costs. Groups are in the world frame or, where the file's ``meta_json``
says "launcher", in a launcher's (x along the shot, table at ball-centre height z = 0.759 m).
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import genan  # noqa: F401  before JAX: see genan.jax_setup  # isort: skip
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from machine import machine

sys.path.insert(0, str(Path(__file__).parents[1]))
from experiments import launcher as fitting  # isort: skip

from genan.errors import DataError, GenanError
from genan.tasks.ball import Court, flight
from genan.tasks.ball.flight import AirDrag, BallFilter, FlyingBall, track
from genan.tasks.ball.launcher import Launcher
from genan.tasks.ball.recordings import RecordedBall, load, read

#: Racket's plane in the lab's frame, and for launcher-frame balls the farthest that all of them
#: were followed [m].
PLANE, LAUNCHER_PLANE = 0.0, 0.4
#: Where a launcher's origin is put in the world: its balls then start where those of 2019 do [m].
LAUNCHER_AT, LAUNCHER_TABLE = (0.46, 3.05), 0.759
WINDOW, AHEAD, STEP = 0.3, 1.2, 0.002


@dataclass(frozen=True)
class Fit:
    """Fit a launcher to recorded balls and write its file."""

    data: Path
    """.npz or .csv with recorded balls in the world frame."""
    out: Path
    """JSON file to write."""
    group: str | None = None
    """Which group of the file."""
    camera_group: str | None = None
    """Group with the camera's own time stamps, in any frame: says how often and how well the camera
    sees."""
    source: str = ""
    """What to write down as the source."""


@dataclass(frozen=True)
class Check:
    """Predict held-out balls from their first 0.3 s."""

    data: Path
    """.npz with groups of recorded balls."""
    window: float = WINDOW
    """Time that the filter sees [s]."""


@dataclass(frozen=True)
class Steps:
    """Measure what the length of a step costs."""


@dataclass(frozen=True)
class Misses:
    """How far predictions lie from recorded balls at the racket's plane, one row per ball."""

    place: np.ndarray
    """Distance within the plane, between the two crossings [m]."""
    time: np.ndarray
    """Predicted minus recorded crossing [s]."""
    ball: np.ndarray
    """Distance between both balls when the recorded one crosses [m]."""


def groups(path: Path) -> dict[str, tuple[tuple[RecordedBall, ...], float]]:
    """Every group of a .npz, in the world frame, with the y of its racket's plane [m]."""
    try:
        with np.load(path, allow_pickle=False) as file:
            names = [name.removesuffix("__t") for name in file.files if name.endswith("__t")]
            meta = json.loads(str(file["meta_json"]))["groups"] if "meta_json" in file.files else {}
    except (OSError, ValueError, KeyError) as error:
        raise DataError(
            f"{path} cannot be read as a .npz with groups of balls ({error})."
        ) from error
    found = {}
    for name in names:
        if str(meta.get(name, {}).get("frame", "")).startswith("launcher"):
            found[name] = (tuple(_to_world(one) for one in read(path, group=name)), LAUNCHER_PLANE)
        else:
            found[name] = (load(path, group=name), PLANE)
    return found


def _to_world(one: RecordedBall) -> RecordedBall:
    """From a launcher's frame: the shot along -y, the table at our table's height."""
    x, y, z = one.positions.T
    lift = Court().contact_height - LAUNCHER_TABLE
    return RecordedBall(
        one.times, np.stack([LAUNCHER_AT[0] + y, LAUNCHER_AT[1] - x, z + lift], axis=1), one.name
    )


def crossing(times: np.ndarray, positions: np.ndarray, y: float) -> tuple[float, np.ndarray] | None:
    """Time [s] and position [m] at which a path comes down to ``y``; None if it does not."""
    below = positions[:, 1] < y
    k = int(np.argmax(below))
    if k == 0:
        return None
    part = (positions[k - 1, 1] - y) / (positions[k - 1, 1] - positions[k, 1])
    return times[k - 1] + part * (times[k] - times[k - 1]), positions[k - 1] + part * (
        positions[k] - positions[k - 1]
    )


def recorded_crossing(one: RecordedBall, y: float) -> tuple[float, np.ndarray] | None:
    """The same for a noisy recording: through a parabola over the samples within 60 ms."""
    rough = crossing(one.times, one.positions, y)
    if rough is None:
        return None
    near = np.abs(one.times - rough[0]) < 0.06
    curve = np.polynomial.polynomial.polyfit(one.times[near] - rough[0], one.positions[near], 2)
    around = np.linspace(-0.06, 0.06, 1201)
    smooth = np.polynomial.polynomial.polyval(around, curve).T
    found = crossing(around, smooth, y)
    return None if found is None else (rough[0] + found[0], found[1])


@eqx.filter_jit
def _predicted(
    ball_filter: BallFilter, times: jax.Array, positions: jax.Array, seen: jax.Array
) -> jax.Array:
    """Positions from the estimate after ``seen`` + 1 measurements on, each ``STEP``."""
    means = track(ball_filter, times, positions).mean
    ball = FlyingBall(means[seen, :3], means[seen, 3:6], means[seen, 6:])
    steps = round(AHEAD / STEP)
    return flight.fly(
        ball, ball_filter.air, ball_filter.bounce, ball_filter.court, dt=STEP, steps=steps
    ).position


def misses(
    balls: tuple[RecordedBall, ...], ball_filter: BallFilter, y: float, window: float = WINDOW
) -> Misses:
    """Filter the first ``window`` [s] of each ball, predict it to the plane at ``y`` [m],
    compare."""
    rows = max(int(np.sum(one.times <= window)) for one in balls)

    found = []
    for one in balls:
        truth = recorded_crossing(one, y)
        if truth is None:
            continue
        seen = int(np.sum(one.times <= window))
        # The scan's length is the same for all balls; what it says after ``seen`` samples is the
        # last that counts.
        times = np.concatenate(
            [one.times[:seen], one.times[seen - 1] + 0.01 * np.arange(1, rows - seen + 1)]
        )
        positions = np.concatenate(
            [one.positions[:seen], np.repeat(one.positions[seen - 1 : seen], rows - seen, axis=0)]
        )
        path = np.asarray(
            _predicted(
                ball_filter,
                *(jnp.asarray(a, jnp.float32) for a in (times, positions)),
                jnp.asarray(seen - 1),
            ),
            np.float64,
        )
        stamps = one.times[seen - 1] + STEP * np.arange(len(path))
        meets = crossing(stamps, path, y)
        there = [np.interp(truth[0], stamps, path[:, axis]) for axis in range(3)]
        # A prediction that does not come to the plane at all counts as infinitely far.
        place = np.inf if meets is None else np.linalg.norm(meets[1] - truth[1])
        found.append(
            (
                place,
                np.inf if meets is None else meets[0] - truth[0],
                np.linalg.norm(there - truth[1]),
            )
        )
    if not found:
        raise DataError(
            f"None of the {len(balls)} balls was followed to the plane y = {y} m; there is "
            "nothing to check."
        )
    return Misses(*np.array(found).T)


def halves(
    balls: tuple[RecordedBall, ...],
) -> tuple[tuple[RecordedBall, ...], tuple[RecordedBall, ...]]:
    """The first half to fit to, the second to judge by."""
    return balls[: len(balls) // 2], balls[len(balls) // 2 :]


def check(flags: Check) -> None:
    scene = Court()
    print(
        f"{'group':22} {'model of the filter':34} {'balls':>5} {'miss in the plane [cm]':>30} "
        f"{'time':>11} {'ball':>9}"
    )
    print(
        f"{'':22} {'':34} {'':5} {'25 %':>9}{'median':>7}{'75 %':>7}{'95 %':>7} {'median':>11} "
        f"{'median':>9}"
    )
    for name, (balls, y) in groups(flags.data).items():
        learnt, held_out = halves(balls)
        launcher = fitting.launcher(learnt, scene, camera=fitting.BallCamera(), source="")
        models = {
            "fitted to the first half": launcher.filter(),
            "bundled launcher": Launcher.load().filter(),
            "the lab filter's constants": BallFilter(),
        }
        for words, ball_filter in models.items():
            found = misses(held_out, ball_filter, y, flags.window)
            quarters = "".join(
                f"{100 * q:7.1f}" for q in np.percentile(found.place, [25, 50, 75, 95])
            )
            late, ball = 1e3 * np.median(found.time), 100 * np.median(found.ball)
            print(
                f"{name:22} {words:34} {len(found.place):5}   {quarters} {late:+8.1f} ms "
                f"{ball:6.1f} cm",
                flush=True,
            )
    print(
        f"\nCrossing y = {PLANE} m: mean and deviation of time [s], x and z [m]; balls that are "
        "there by 1.09 s"
    )
    for name, (balls, y) in groups(flags.data).items():
        if y == PLANE:
            _print_crossings(name, [recorded_crossing(one, y) for one in balls])
    drawn = Launcher.load().sample_balls(400, key=jax.random.key(0), duration=1.5)
    times = STEP * np.arange(drawn.positions.shape[1])
    _print_crossings(
        "bundled launcher", [crossing(times, path, PLANE) for path in np.asarray(drawn.positions)]
    )
    print(
        "\nFiltered observations of the bundled launcher's balls: median error of position [mm] "
        "and velocity [m/s]"
    )
    truth = np.concatenate([drawn.positions, drawn.velocities], axis=-1)[:, :: round(0.01 / STEP)]
    error = np.asarray(drawn.observations) - truth
    for tick in (1, 2, 5, 10, 20, 50, 70, 95):
        place, speed = (
            np.median(np.linalg.norm(error[:, tick, part], axis=-1))
            for part in (slice(3), slice(3, 6))
        )
        print(f"  after {10 * tick:3} ms {1e3 * place:8.1f} {speed:8.2f}")


def _print_crossings(name: str, found: list[tuple[float, np.ndarray] | None]) -> None:
    rows = np.array([(time, point[0], point[2]) for time, point in filter(None, found)])
    numbers = "".join(
        f"{m:9.3f} +-{s:6.3f}" for m, s in zip(rows.mean(axis=0), rows.std(axis=0), strict=True)
    )
    print(f"  {name:22}{numbers}{100 * np.mean(rows[:, 0] < 1.09):8.0f} %")


def steps() -> None:
    """Error of one second of flight, by step and method, against steps of 0.1 ms in float64."""
    velocity, spin, air = np.array([0.24, -4.15, 2.28]), np.array([36.0, 0.0, 0.0]), AirDrag()

    def pull(v: np.ndarray) -> np.ndarray:
        drag = air.drag * np.linalg.norm(v) * v
        return np.array([0.0, 0.0, -air.gravity]) - drag + air.magnus * np.cross(spin, v)

    def fine(p: np.ndarray, v: np.ndarray, dt: float = 1e-4) -> np.ndarray:
        for _ in range(round(1.0 / dt)):
            middle = v + 0.5 * dt * pull(v)
            p, v = p + dt * middle, v + dt * pull(middle)
        return p

    truth, start = (
        fine(np.zeros(3), velocity),
        FlyingBall(*(jnp.asarray(a, jnp.float32) for a in (np.zeros(3), velocity, spin))),
    )
    print(
        "position after 1 s, error [mm]:  midpoint rule (float32)   semi-implicit Euler (float64)"
    )
    for dt in (0.002, 0.01, 0.02):
        ours = jax.lax.fori_loop(
            0, round(1.0 / dt), lambda _, ball, dt=dt: flight.step_free(ball, dt, air), start
        ).position
        p, v = np.zeros(3), velocity
        for _ in range(round(1.0 / dt)):
            v = v + dt * pull(v)
            p = p + dt * v
        errors = [1e3 * np.linalg.norm(np.asarray(x, np.float64) - truth) for x in (ours, p)]
        print(f"  steps of {1e3 * dt:4.0f} ms {errors[0]:27.4f} {errors[1]:31.3f}")


def fit(flags: Fit) -> None:
    balls, scene = load(flags.data, group=flags.group), Court()
    source = (
        flags.source
        or f"{flags.data.name}{f', {flags.group}' if flags.group else ''}, {len(balls)} balls"
    )
    seen = read(flags.data, group=flags.camera_group) if flags.camera_group else None
    camera = fitting.camera(seen) if seen else fitting.BallCamera()
    found = fitting.launcher(balls, scene, camera=camera, source=source)
    flags.out.write_text(found.to_json(), encoding="utf-8")
    print(found.to_json(), end="")


def main() -> int:
    """Run it; exit code."""
    verbs = {"fit": Fit, "check": Check, "steps": Steps}
    flags = tyro.extras.subcommand_cli_from_dict(verbs, description=__doc__)
    try:
        print(machine())
        if isinstance(flags, Fit):
            fit(flags)
        elif isinstance(flags, Check):
            check(flags)
        else:
            steps()
    except GenanError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
