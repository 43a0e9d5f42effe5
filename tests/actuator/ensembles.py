"""Ensembles that nobody fitted: random ones of several shapes, and linear ones of known torque."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from genan.actuator import Contract, Ensemble, History
from genan.actuator.ensemble import Layer, Scaling, Skip
from genan.actuator.settings import Architecture, Servo, Terms
from genan.robot import Robot

TERMS = Terms(friction=((0.01, 0.05), (0.02, 0.1), (0.005, 0.5)), turning=(0, 2), products=(3, 5))
SERVOS = (Servo(0, 1, (3,), (2, 4)), Servo(2, 0, (), (4,)), Servo(1, 0, (2, 3), ()))

CASES = {
    "one joint, no past": {"nq": 1, "nu": 3, "history": History(0)},
    "one past sample": {"nq": 4, "nu": 8, "history": History(1)},
    "stride": {"nq": 3, "nu": 2, "history": History(3, stride=2)},
    "plain history": {"nq": 2, "nu": 1, "history": History(3, delta=False)},
    "paper": {"nq": 4, "nu": 4, "hidden": (512, 512), "members": 5},
    "one member": {"members": 1, "hidden": (16,)},
    "linear": {"hidden": ()},
    "relu": {"activation": "relu"},
    "elu": {"activation": "elu"},
    "softsign": {"activation": "softsign"},
    "delay": {"nq": 2, "nu": 3, "history": History(3, stride=2, delay=4)},
    "delay, no past": {"nq": 1, "nu": 2, "history": History(0, delay=2)},
    "linear with terms": {"history": History(2, terms=TERMS), "hidden": ()},
    "one turning joint": {"nq": 1, "nu": 2, "history": History(1, terms=Terms((), (0,)))},
    "network on a base": {"history": History(3, stride=2, delay=1, terms=TERMS), "skip": True},
    "stiction": {
        "history": History(1, terms=replace(TERMS, servos=SERVOS, standing=((0, 0.02), (1, 0.01)))),
        "skip": True,
    },
    "stiction without servos": {
        "history": History(2, terms=replace(TERMS, standing=((1, 0.02), (2, 0.01)))),
        "hidden": (),
    },
    "servos": {
        "history": History(1, stride=2, delay=1, terms=replace(TERMS, servos=SERVOS)),
        "skip": True,
    },
}

#: Each case compiles a program of its own; these few are enough for the fast tests.
FAST = ("one member", "linear", "relu", "delay", "stiction")
#: What others have too: a stride and servos, among more.
CONTAINED = ("one past sample", "stride", "servos")
CASE_NAMES = [
    pytest.param(name, marks=[] if name in FAST else pytest.mark.slow)
    for name in CASES
    if name not in CONTAINED
]


def make(
    *,
    nq: int = 3,
    nu: int = 5,
    history: History = History(),  # noqa: B008
    hidden: tuple[int, ...] = (32, 32),
    activation: str = "tanh",
    members: int = 3,
    skip: bool = False,
    record: str = '{"data": {"fingerprint": "abc"}, "metrics": {"error": [1.0, 0.9, 1.1]}}',
) -> Ensemble:
    """Random networks with a scaling as a recording gives: positions vary by 0.5, their differences
    by 0.01."""
    seed = nq + 10 * nu + 100 * history.length
    rng = np.random.default_rng(seed)
    normal = lambda *shape: jnp.asarray(rng.normal(size=shape), jnp.float32)
    uniform = lambda low, high, *shape: jnp.asarray(rng.uniform(low, high, shape), jnp.float32)
    joints, controls = [tuple(f"{name}{k}" for k in range(n)) for name, n in (("q", nq), ("u", nu))]
    contract = Contract(
        robot="arm",
        dt=0.004,
        joints=joints,
        joint_units=("rad",) * nq,
        controls=controls,
        control_units=("bar",) * nu,
        history=history,
        architecture=Architecture(hidden, activation, skip),
        members=members,
        loss="position",
        q_seen=((-1.0, 1.0),) * nq,
        u_seen=((-1.0, 1.0),) * nu,
    )
    inputs = contract.inputs
    sizes = contract.architecture.sizes(inputs, nq)
    drawn = lambda rows, *shape: uniform(-(rows**-0.5), rows**-0.5, members, *shape)
    layers: tuple[Layer, ...] = tuple(Layer(drawn(i, i, j), drawn(i, j)) for i, j in sizes)
    if skip:
        straight = normal(members, inputs, nq), normal(members, nq)
        bounds = uniform(-1.0, 0.0, members, inputs), uniform(0.0, 1.0, members, inputs)
        layers = (*layers, Skip(*straight, *bounds))
    size = [
        x
        for n in (nq, nu)
        for x in [0.5] * n + [0.01 if history.delta else 0.5] * (n * history.length)
    ]
    size += [0.5] * (inputs - len(size))
    scaling = Scaling(
        jnp.asarray(0.3 * rng.normal(size=inputs) * size, jnp.float32),
        jnp.asarray(rng.uniform(0.5, 2.0, inputs) * size, jnp.float32),
        normal(nq),
        jnp.asarray(np.linspace(0.1, 8.0, nq), jnp.float32),
    )
    return Ensemble(contract, layers, scaling, record)


def make_ensemble(
    robot: Robot,
    *,
    history: History | None = None,
    damping: float = 0.0,
    gain: float = 0.0,
    members: int = 1,
    scatter: float = 0.0,
    record: str = "{}",
) -> Ensemble:
    """Networks without a hidden layer: torque = gain u - damping velocity, each member a little off
    by ``scatter``."""
    history = history or History(1)
    nq, nu = robot.nq, robot.nu
    weight = np.zeros((members, history.inputs(nq, nu), nq), np.float32)
    for j in range(nq):
        weight[:, nq + j, j] = damping / (robot.dt * history.stride)
        weight[:, nq * history.rows + min(j, nu - 1), j] = gain
    rng = np.random.default_rng(0)
    weight += (scatter * rng.normal(size=weight.shape)).astype(np.float32)
    bias = (scatter * rng.normal(size=(members, nq))).astype(np.float32)
    contract = Contract(
        robot=robot.name,
        dt=robot.dt,
        joints=robot.joint_names,
        joint_units=tuple(joint.unit for joint in robot.joints),
        controls=robot.control_names,
        control_units=tuple(control.unit for control in robot.controls),
        history=history,
        architecture=Architecture(()),
        members=members,
        loss="position",
        q_seen=((0.0, 0.0),) * nq,
        u_seen=((0.0, 0.0),) * nu,
    )
    inputs = history.inputs(nq, nu)
    flat = lambda value, n: jnp.asarray(np.full(n, value), jnp.float32)  # compiles nothing
    scaling = Scaling(flat(0.0, inputs), flat(1.0, inputs), flat(0.0, nq), flat(1.0, nq))
    return Ensemble(contract, (Layer(jnp.asarray(weight), jnp.asarray(bias)),), scaling, record)
