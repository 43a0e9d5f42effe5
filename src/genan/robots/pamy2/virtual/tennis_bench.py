"""``TennisBench``: the virtual PAMY2 with its racket, a ball gun, a table, and a ball that is
really there.

bench = TennisBench(seed=0)
bench.reset()
bench.launch(trial)
while bench.playing:
    bench.command(u)  # 2 ms of robot and ball; q by bench.read(), the ball by a tracker
bench.outcome()
"""

import enum

import numpy as np
from jaxtyping import Float

from genan.errors import SettingError
from genan.robots.pamy2.virtual.parameters import design
from genan.robots.pamy2.virtual.robot import VirtualPamy2
from genan.robots.pamy2.virtual.tennis import (
    STEP,
    BallGun,
    BallPhysics,
    BallState,
    Hand,
    Obstacle,
    Racket,
    RacketModel,
    Room,
    between,
    drawn_hit,
    struck,
)
from genan.robots.pamy2.virtual.tracking import Cameras

Point = Float[np.ndarray, " 3"]

#: A ball that is nowhere to be judged after this time is given up [s]; none flies that long.
_LONGEST = 5.0


class RallyOutcome(enum.Enum):
    """What became of a ball."""

    SUCCESS = "success"  # After the hit it first touched the opponent's half of the table.
    TOO_LONG = "too long"  # It flew over the opponent's end.
    TOO_SHORT = "too short"  # It came down on the robot's side of the net, or fell from the net.
    SIDE = "side"  # It passed the net and came down beside the table.
    MISSED = "missed"  # The racket did not touch it.


class TennisBench(VirtualPamy2):
    """One robot at one table: all that a ``VirtualPamy2`` does, with a ball.

    The same seed, hours, trial and commands give the same flight to the last bit.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        hours: float = 0.0,
        drift: float = 1.0,
        gun: BallGun | None = None,
        physics: BallPhysics | None = None,
        room: Room | None = None,
        racket: RacketModel | None = None,
    ) -> None:
        """Specimen ``seed`` after ``hours`` [h], as for ``VirtualPamy2``; the rest for studies."""
        self.gun, self.physics = gun or BallGun(), physics or BallPhysics()
        self.room, self.racket_model = room or Room(), racket or RacketModel()
        self._hand = Hand(
            np.asarray(design().arm.offset), self.room.base, self.racket_model, seed=seed
        )
        super().__init__(seed=seed, hours=hours, drift=drift)

    def reset(self) -> None:
        """Put the arm back to hang at its rest controls, and take the ball away."""
        super().reset()
        self._racket = self._true_racket()
        self._ball: BallState | None = None
        self._hit_at: float | None = None
        self._outcome: RallyOutcome | None = None
        self._landing: Point | None = None
        self._steps = 0

    def launch(self, trial: int) -> None:
        """Shoot ball number ``trial``: the same for all robots, unlike the hit."""
        if trial < 0:
            raise SettingError(f"Balls are numbered from 0 on; got trial {trial}.")
        self._ball = self.gun.shot(trial)
        self._chance = np.random.default_rng([0x417, self.seed, trial])
        self._luck = float(np.random.default_rng([0xB0C, trial]).standard_normal())
        self._next_hit = drawn_hit(self.racket_model, self._chance)
        self._hit_at = self._outcome = self._landing = None
        self._steps = 0

    def command_pressures(self, pressure: Float[np.ndarray, "8"]) -> Float[np.ndarray, "8"]:
        """One tick of the robot, in which the ball flies on; the pressures sent [bar]."""
        sent = super().command_pressures(pressure)
        before, self._racket = self._racket, self._true_racket()
        if self._ball is not None:
            steps = round(self.dt / STEP)
            last = before
            for k in range(1, steps + 1):
                now = between(before, self._racket, k / steps)
                self._step(last, now)
                last = now
        return sent

    def tracker(self) -> Cameras:
        """The cameras that see this bench's ball."""
        return Cameras(seed=self.seed)

    @property
    def time(self) -> float:
        """Since the launch [s]."""
        return self._steps * STEP

    @property
    def playing(self) -> bool:
        """Whether a ball is on its way and not judged yet."""
        return self._ball is not None and self._outcome is None

    @property
    def hit(self) -> bool:
        """Whether the racket has touched the ball."""
        return self._hit_at is not None

    def finish(self) -> RallyOutcome:
        """Let the ball fly on until it is judged, the robot still and out of its path."""
        self._launched()
        while self._outcome is None:
            self._step(None, None)
        return self._outcome

    def outcome(self) -> RallyOutcome | None:
        """What became of the ball; None while that is open."""
        return self._outcome

    def landing(self) -> Point | None:
        """Where the ball came down to the table's height [m]; None before, or if missed."""
        return None if self._landing is None else self._landing.copy()

    def ball_for_evaluation_only(self) -> tuple[Point, Point, Point]:
        """True position [m], velocity [m/s] and spin [rad/s] in the world frame."""
        ball = self._launched()
        return np.array(ball.position), np.array(ball.velocity), np.array(ball.spin)

    def racket_for_evaluation_only(self) -> tuple[Point, Float[np.ndarray, "3 3"]]:
        """True middle of the blade [m] and its axes across, normal, along, as columns."""
        return np.array(self._racket.position), np.array(self._racket.axes).T

    def _launched(self) -> BallState:
        if self._ball is None:
            raise SettingError("There is no ball: launch(trial) first.")
        return self._ball

    def _true_racket(self) -> Racket:
        return self._hand.racket(np.asarray(self._state.q))

    def _step(self, before: Racket | None, now: Racket | None) -> None:
        """One step of the ball; the racket comes from ``before`` to ``now`` (None: none)."""
        old = self._launched()
        ball, touch = self.room.step(self.physics, old, STEP, self._luck)
        self._steps += 1
        if before is not None and now is not None:
            off = struck(ball, before, now, STEP, self._next_hit, self.racket_model, self.physics)
            if off is not None:
                ball, self._hit_at = off, self.time
                self._next_hit = drawn_hit(self.racket_model, self._chance)
        self._ball = ball
        if self._outcome is None:
            self._judge(old, ball, touch)

    def _judge(self, old: BallState, ball: BallState, touch: Obstacle) -> None:
        """Whether this step decided it: coming down after a hit, the end without one."""
        if self._hit_at is None:
            x, y, _ = self.room.table
            gone = (
                ball.position[1] < y - self.room.half_length - 2.0
                or abs(ball.position[0] - x) > 4.0
            )
            if touch is Obstacle.FLOOR or gone or self.time > _LONGEST:
                self._outcome = RallyOutcome.MISSED
            return
        height = self.room.table[2] + self.physics.radius
        down = touch is Obstacle.TABLE or ball.position[2] < height <= old.position[2]
        if not (down or touch is Obstacle.FLOOR or self.time > _LONGEST):
            return
        x, y = ball.position[0], ball.position[1]
        self._landing = np.array([x, y, height])
        if y < self.room.table[1]:
            self._outcome = RallyOutcome.TOO_SHORT
        elif abs(x - self.room.table[0]) > self.room.half_width:
            self._outcome = RallyOutcome.SIDE
        else:
            on_table = y <= self.room.table[1] + self.room.half_length
            self._outcome = RallyOutcome.SUCCESS if on_table else RallyOutcome.TOO_LONG
