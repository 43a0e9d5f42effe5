"""Random ensembles of several shapes, for the tests of the exports."""

import jax
import jax.numpy as jnp

from genan.actuator import Contract, Ensemble, History
from genan.actuator.architecture import Architecture
from genan.actuator.network import initialise
from genan.actuator.scaling import Scaling

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
}


def make(
    *,
    nq: int = 3,
    nu: int = 5,
    history: History = History(),  # noqa: B008
    hidden: tuple[int, ...] = (32, 32),
    activation: str = "tanh",
    members: int = 3,
) -> Ensemble:
    """Random networks with a scaling as a recording gives: positions vary by 0.5, their differences by 0.01."""
    a, b, c, d = jax.random.split(jax.random.key(nq + 10 * nu + 100 * history.length), 4)
    joints, controls = [tuple(f"{name}{k}" for k in range(n)) for name, n in (("q", nq), ("u", nu))]
    contract = Contract(
        robot="arm",
        dt=0.004,
        joints=joints,
        joint_units=("rad",) * nq,
        controls=controls,
        control_units=("bar",) * nu,
        history=history,
        architecture=Architecture(hidden, activation),
        members=members,
        loss="position",
        q_seen=((-1.0, 1.0),) * nq,
        u_seen=((-1.0, 1.0),) * nu,
    )
    inputs = contract.inputs
    layers = jax.vmap(lambda key: initialise(contract.architecture, inputs, nq, key=key))(jax.random.split(a, members))
    size = [x for n in (nq, nu) for x in [0.5] * n + [0.01 if history.delta else 0.5] * (n * history.length)]
    scaling = Scaling(
        0.3 * jax.random.normal(b, (inputs,)) * jnp.array(size),
        jax.random.uniform(c, (inputs,), minval=0.5, maxval=2.0) * jnp.array(size),
        jax.random.normal(d, (nq,)),
        jnp.linspace(0.1, 8.0, nq),
    )
    return Ensemble(contract, layers, scaling, '{"data": "abc", "metrics": {"error": [1.0, 0.9, 1.1]}}')
