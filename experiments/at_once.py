"""Reacher trials by the hundred: what ``transfer`` does trial by trial, as one compiled program.

The robot is the virtual PAMY2, which is written in JAX. Trials follow one another within a session;
sessions, each on a robot that was switched on anew and is as old as the one before has become, go
side by side. A session in which a guard might have stopped a flight is flown again by
the control loop, which knows what happens then.

The policy is computed in double precision and rounded to the float32 that it is defined in: no
order of summation is preferred. Where the control loop computes it so too, the first trial of a
session ends where the control loop's does, to the last digit. Joints that stick and slip make more
of a difference in the last bit, so later trials agree as two takes of the same trial do.
"""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int32

from genan.deployment.safety import SafetySettings, Stop, StopReason
from genan.errors import SettingError, refuse
from genan.evaluation.transfer import (
    PAUSE,
    RAMP,
    ReacherTrials,
    TransferResult,
    TransferTrial,
    TrialSetup,
    load_policy,
    open_trials,
    transfer,
)
from genan.files import Place
from genan.rl.numpy_policy import NumpyPolicy
from genan.rl.policy import Policy
from genan.robot import Robot
from genan.robots.pamy2.pressures import HARD_LIMITS, bar_from_control
from genan.robots.pamy2.virtual.parameters import Drift, Parameters, design, specimen
from genan.robots.pamy2.virtual.robot import (
    HANG_TICKS,
    TICK,
    PamyState,
    VirtualPamy2,
    on_the_bench,
    reported,
    session,
    state_at,
    tick,
)

NEAR = 0.99  # From this part of a guard's limit on, the control loop has the last word.


def reach_at_once(
    folder: Place,
    *,
    robot: str | None = None,
    robot_seeds: Sequence[int] = (0,),
    trials: int = 100,
    sessions: int = 20,
    seed: int = 0,
    hours: float = 0.0,
) -> TransferResult:
    """Try the reacher in ``folder`` ``trials`` times on each robot, in ``sessions`` side by side.

    Trial k draws what trial k of ``transfer`` draws. Session s flies the trials from s n on, n of
    them, and begins at the age that the sessions before it have made; ``hours`` [h] is the first's.
    """
    refuse((min(trials, sessions) < 1, f"At least one trial, not {trials} in {sessions} sessions."))
    policy, numpy_policy = Policy.load(folder), load_policy(folder, ReacherTrials.task)
    policy = replace(policy, record_json="{}")  # One program for policies that differ in weights.
    length = -(-trials // sessions)
    firsts = range(0, trials, length)
    plan = _Plan.of(policy, Robot.load(policy.contract.robot))
    age = lambda first: hours + first * plan.ticks * plan.dt / 3600.0
    done: list[TransferTrial] = []
    for one in robot_seeds:
        setup: Any = open_trials(numpy_policy, robot=robot, seed=one, hours=hours)
        setup.robot.connect()
        virtual = getattr(setup.robot, "virtual", None)
        if not isinstance(virtual, VirtualPamy2):
            raise SettingError("Trials at once need a virtual robot that is written in JAX.")
        robots = switched_on(virtual, np.array([age(k) for k in firsts]))
        drawn = [setup.prepare(k, seed=seed) for k in range(len(firsts) * length)]
        starts, goals = (
            np.array([getattr(trial, name) for trial in drawn]).reshape(len(firsts), length, -1)
            for name in ("u", "goal")
        )
        ends, doubtful = _flown(policy, plan, robots, starts, goals)
        for row, first in enumerate(firsts):
            count = min(length, trials - first)
            if doubtful[row, :count].any():
                old = {"robot": robot, "hours": age(first)}
                again = partial(_opened, numpy_policy, old)
                flown = transfer(again, robot_seeds=(one,), trials=count, first=first, seed=seed)
                done += flown.trials
                continue
            for k in range(count):
                verdict = setup.judged(ends[row, k], goals[row, k])
                drew = {"u_init": starts[row, k].tolist(), "goal": goals[row, k].tolist()}
                stop = str(Stop(StopReason.FINISHED))
                done.append(TransferTrial(first + k, one, **vars(verdict), stop=stop, **drew))
    protocol = {"trials": trials, "sessions": sessions, "seed": seed, "hours": hours}
    about = {**protocol, "robot_seeds": list(robot_seeds), "contract": numpy_policy.contract}
    return TransferResult(ReacherTrials.task, tuple(done), about)


def _opened(policy: NumpyPolicy, settings: Mapping[str, Any], seed: int | None) -> TrialSetup:
    return open_trials(policy, seed=seed, **settings)


class _Plan(NamedTuple):
    """What a flight consists of, in ticks, and limits a little stricter than those of ``Guard``;
    programs are known by it, so everything in it can be hashed."""

    dt: float
    pause: int
    ramp: int
    steps: int  # Of the policy.
    repeat: int  # Ticks of each.
    rest: int
    u_rest: tuple[float, ...]
    u_range: tuple[tuple[float, ...], ...]
    change: tuple[float, ...]
    speed: tuple[float, ...]
    q_range: tuple[tuple[float, ...], ...]  # Beyond it a flight ends.
    q_near: tuple[tuple[float, ...], ...]  # Beyond it a joint must not go outwards fast.
    safety: SafetySettings

    @classmethod
    def of(cls, policy: Policy, robot: Robot) -> "_Plan":
        contract = policy.contract
        safety = SafetySettings(change=contract.action_scale)
        change = np.minimum(robot.u_change, safety.change)
        pause, ramp, rest = (round(time / robot.dt) for time in (PAUSE, RAMP, safety.ramp))
        flying, repeat = round(contract.constants["duration"] / robot.dt), contract.action_repeat
        slowest = float((np.ptp(robot.u_range, axis=0) / change).max())
        refuse(
            (flying % repeat, f"An episode must be whole steps of {repeat} ticks, not {flying}."),
            (slowest > min(ramp, rest), "The ramps must not be slowed down by the rate limit."),
        )
        speed = NEAR * np.minimum([joint.speed for joint in robot.joints], safety.speed)
        outwards = np.array([[-1.0], [1.0]])
        rows = lambda values: tuple(map(tuple, np.asarray(values, float).tolist()))
        return cls(
            robot.dt, pause, ramp, flying // repeat, repeat, rest,
            u_rest=tuple(robot.u_rest.tolist()), u_range=rows(robot.u_range),
            change=tuple(change.tolist()), speed=tuple(speed.tolist()),
            q_range=rows(robot.q_range + NEAR * safety.beyond * outwards),
            q_near=rows(robot.q_range - safety.margin / NEAR * outwards), safety=safety,
        )  # fmt: skip

    @property
    def ticks(self) -> int:
        return self.pause + self.ramp + self.steps * self.repeat + self.rest


class SessionRobot(NamedTuple):
    """One robot, or many with a leading axis, from session to session and trial to trial."""

    parameters: Parameters
    drift: Drift
    hours: Array  # Age when it was switched on [h].
    aged: Parameters  # As it is in this trial.
    now: PamyState

    def next_trial(self) -> "SessionRobot":
        """As ``VirtualPamy2.next_trial``."""
        hours = self.hours + self.now.ticks * TICK / 3600.0
        return self._replace(aged=self.drift.aged(self.parameters, hours))

    def command(self, u: Float[Array, "4"]) -> "SessionRobot":
        """A period later, at the controls ``u``."""
        sent = jnp.clip(bar_from_control(u), *HARD_LIMITS)
        return self._replace(now=tick(self.aged, self.now, sent))

    def read(self) -> Float[Array, "4"]:
        """Joint positions that the encoders report [rad]."""
        return reported(self.aged, self.now)


def switched_on(virtual: VirtualPamy2, hours: Float[np.ndarray, " robots"]) -> SessionRobot:
    """A robot like ``virtual`` for each of ``hours`` [h] of operation behind it."""
    with on_the_bench():
        parameters = specimen(design(virtual.end_effector), virtual.seed)
        own = parameters, Drift.drawn(virtual.seed, rate=1.0), np.int32(virtual.seed)
        rest = virtual.robot.q_rest, bar_from_control(virtual.robot.u_rest)
        return _switched_on(*own, jnp.asarray(hours), *map(jnp.asarray, rest))


@jax.jit
@partial(jax.vmap, in_axes=(None, None, None, 0, None, None))
def _switched_on(
    parameters: Parameters,
    drift: Drift,
    seed: Int32[Array, ""],
    hours: Float[Array, ""],
    q: Float[Array, "4"],
    pressure: Float[Array, "8"],
) -> SessionRobot:
    aged = drift.aged(parameters, hours)
    hang = lambda _, state: tick(aged, state, pressure)
    hung = jax.lax.fori_loop(0, HANG_TICKS, hang, state_at(aged, q, pressure))
    return SessionRobot(parameters, drift, hours, aged, session(hung, seed, hours))


def _flown(
    policy: Policy,
    plan: _Plan,
    robots: SessionRobot,
    starts: Float[np.ndarray, "sessions trials nu"],
    goals: Float[np.ndarray, "sessions trials nq"],
) -> tuple[Float[np.ndarray, "sessions trials nq"], Bool[np.ndarray, "sessions trials"]]:
    """Positions when the policy's time was up, and whether a guard was near to stopping it; as many
    sessions in a thread as there are cores for."""
    groups = np.array_split(np.arange(len(starts)), min(len(starts), max(2, os.cpu_count() or 2)))

    def fly(group: np.ndarray) -> Any:
        with on_the_bench():
            some = jax.tree.map(lambda part: part[group], robots)
            found = _sessions(policy, plan, some, starts[group], goals[group])
            return jax.tree.map(np.asarray, found)

    with ThreadPoolExecutor(len(groups)) as pool:
        ends, doubtful = zip(*pool.map(fly, groups), strict=True)
    return np.concatenate(ends), np.concatenate(doubtful)


class _TrialProgress(NamedTuple):
    """A flight that is going on."""

    robot: SessionRobot
    u: Array  # Controls sent last.
    action: Array  # Of the policy.
    q: Array  # Read last.
    end: Array  # Read when the policy's time was up.
    still: Array  # Ticks since a joint moved.
    travel: Array  # Of the controls since then.
    doubtful: Array  # Whether a guard might have stopped it.


@partial(jax.jit, static_argnames="plan")
def _sessions(
    policy: Policy, plan: _Plan, robots: SessionRobot, starts: Array, goals: Array
) -> tuple[Float[Array, "sessions trials nq"], Bool[Array, "sessions trials"]]:
    def trial(robot: SessionRobot, drawn: tuple[Array, Array]) -> tuple[Any, tuple[Array, Array]]:
        return _trial(policy, plan, robot, *drawn)

    return jax.vmap(lambda *lane: jax.lax.scan(trial, lane[0], lane[1:])[1])(robots, starts, goals)


def _trial(
    policy: Policy, plan: _Plan, robot: SessionRobot, start: Array, goal: Array
) -> tuple[SessionRobot, tuple[Array, Array]]:
    """A flight as ``ControlLoop`` flies it: at rest, to ``start``, the policy, to rest."""
    (low, high), most, u_rest = map(jnp.asarray, (plan.u_range, plan.change, plan.u_rest))
    (lower, upper), (near_lower, near_upper) = map(jnp.asarray, (plan.q_range, plan.q_near))
    speed, safety, dt = jnp.asarray(plan.speed), plan.safety, plan.dt
    exact = jax.tree.map(lambda weights: weights.astype(float), policy)
    begin = plan.pause + plan.ramp
    over, half = begin + plan.steps * plan.repeat, 0.5 * np.ptp(plan.u_range, axis=0)

    def act(q: Array, qd: Array, u: Array) -> Array:
        parts = {"q": q, "qd": qd, "u": u, "goal": goal}
        seen = jnp.concatenate([parts[part.name] for part in policy.contract.layout])
        return exact(seen.astype(jnp.float32).astype(float)).astype(jnp.float32).astype(float)

    def period(t: Array, at: _TrialProgress) -> _TrialProgress:
        q = at.robot.read()
        qd, moved = (q - at.q) / dt, jnp.any(q != at.q)
        still, travel = jnp.where(moved, 0, at.still + 1), jnp.where(moved, 0.0, at.travel)
        far = jnp.max(travel / half) > NEAR * safety.frozen_travel
        towards = jnp.where(q < near_lower, -qd, jnp.where(q > near_upper, qd, 0.0))
        bad = (q < lower) | (q > upper) | (jnp.abs(qd) > speed)
        bad = bad | (towards > NEAR * safety.approach) | (still * dt > NEAR * safety.frozen) & far
        doubtful = at.doubtful | ((t <= over) & jnp.any(bad))

        asked = (t >= begin) & (t < over) & ((t - begin) % plan.repeat == 0)
        action = jax.lax.cond(asked, act, lambda *_: at.action, q, qd, at.u)
        to_start = jnp.where(t < plan.pause, 0.0, (start - at.u) / jnp.maximum(begin - t, 1))
        to_rest = (u_rest - at.u) / (over + plan.rest - t)
        change = jnp.where(t < begin, to_start, jnp.where(t < over, action, to_rest))
        u = jnp.clip(at.u + jnp.clip(change, -most, most), low, high)
        travel, end = travel + jnp.abs(u - at.u), jnp.where(t == over, q, at.end)
        return _TrialProgress(at.robot.command(u), u, action, q, end, still, travel, doubtful)

    robot, none = robot.next_trial(), jnp.zeros_like(u_rest)
    q = robot.read()
    at = _TrialProgress(robot, u_rest, none, q, q, jnp.asarray(0), none, jnp.asarray(False))
    at = jax.lax.fori_loop(0, plan.ticks, period, at)
    return at.robot, (at.end, at.doubtful)
