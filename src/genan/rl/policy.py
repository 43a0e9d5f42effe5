"""``Policy``: what was learnt. A frozen pytree: pass it through ``jit``, ``vmap`` and ``scan`` as
it is.
"""

import hashlib
import json
import math
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from safetensors.numpy import save as tensor_bytes

from genan.actuator import Ensemble
from genan.actuator.artifact import tensors as actuator_tensors
from genan.actuator.network import Layer
from genan.data import Channels
from genan.errors import listing
from genan.provenance import versions
from genan.rl.config import PPOSettings
from genan.rl.contract import CONTRACT, KIND, WEIGHTS, Part, PolicyContract, PolicyError
from genan.rl.networks import ACTIVATION_FUNCTIONS, CLIP, EPSILON, POLICY
from genan.rl.ppo import Agent
from genan.robot import Robot
from genan.tasks.registry import task_entry
from genan.tasks.task import TaskEnvironment


@final
class Policy(eqx.Module):
    """A trained policy: from what it observes to the change of the controls. Leading axes are
    batches."""

    contract: PolicyContract = eqx.field(static=True)
    """Task, robot, rate, observation and shape."""
    layers: tuple[Layer, ...]
    """The policy network; weights are [inputs, outputs]."""
    scale_mean: Float[Array, " observation"]
    """What is taken from an observation."""
    scale_deviation: Float[Array, " observation"]
    """What the rest is divided by."""
    log_deviation: Float[Array, " action"]
    """Logarithm of the actions' standard deviation in training, before the squashing."""
    record_json: str = eqx.field(static=True, default="{}")
    """How it was trained and how good it is, as JSON text (see ``record``)."""

    @classmethod
    def of(
        cls,
        agent: Agent,
        env: TaskEnvironment,
        robot: Robot,
        settings: PPOSettings,
        *,
        record: dict[str, Any],
    ) -> "Policy":
        """What ``agent`` has learnt in ``env`` so far.

        Args:
            agent: the learner's agent.
            env: where it learns.
            robot: the environment's robot.
            settings: how it learns; they become part of the record, as do the versions of what it
                depends on.
            record: what else is to be known of it: steps, seed, success rate and number of
                episodes, ...
        """
        task, channels, scaler = (
            env.task.settings,
            Channels.of_robot(robot),
            agent.observation_scaler,
        )
        words = _words(task.name, channels)
        contract = PolicyContract(
            task=task.name,
            constants_json=json.dumps(task.settings(), sort_keys=True),
            robot=robot.name,
            dt=channels.dt,
            joints=channels.joints,
            joint_units=channels.joint_units,
            controls=channels.controls,
            control_units=channels.control_units,
            u_range=tuple((float(low), float(high)) for low, high in channels.control_range.T),
            repeat=task.action_repeat,
            change=task.action_scale,
            layout=tuple(
                Part(name, size, words.get(name, "as the task gives it"))
                for name, size in env.layout
            ),
            clip=CLIP if scaler.active else None,
            hidden=settings.hidden,
            activation=settings.activation,
            actuators_sha256=actuator_fingerprint(env.simulator.drive.ensemble),
        )
        # A scaler that is off keeps the mean 0 and the variance 1 that it began with, but its
        # epsilon is not added.
        deviation = (
            jnp.sqrt(scaler.variance) + EPSILON if scaler.active else jnp.ones_like(scaler.variance)
        )
        policy = cls(
            contract,
            agent.networks.of(POLICY),
            scaler.mean,
            deviation,
            agent.networks.bounded(settings),
            _json({"settings": settings.settings(), "versions": versions(), **record}),
        )
        policy.check_environment(env)
        return policy

    @property
    def record(self) -> dict[str, Any]:
        """How it was trained (settings, steps, seed, versions) and how good it is."""
        found: dict[str, Any] = json.loads(self.record_json)
        return found

    def with_record(self, **entries: Any) -> "Policy":
        """The same policy with these entries added to its record, or replaced in it."""
        return Policy(
            self.contract, self.layers, self.scale_mean, self.scale_deviation, self.log_deviation,
            _json({**self.record, **entries}),
        )  # fmt: skip

    def change(
        self, observation: Float[Array | np.ndarray, "*batch observation"]
    ) -> Float[Array, "*batch action"]:
        """Change of the controls in each period of the robot until the policy's next step, in the
        controls' units.

        Args:
            observation: as the contract's ``layout`` says [..., n], not standardised.
        """
        return self.squash(self.mean(observation))

    def mean(
        self, observation: Float[Array | np.ndarray, "*batch observation"]
    ) -> Float[Array, "*batch action"]:
        """What the network gives, before the squashing: the action that ``TaskEnvironment.step``
        takes."""
        x = self._standardised(jnp.asarray(observation))
        activation = ACTIVATION_FUNCTIONS[self.contract.activation]
        for k, layer in enumerate(self.layers):
            x = (
                jnp.matmul(activation(x) if k else x, layer.weight, precision="highest")
                + layer.bias
            )
        return x

    def sample(
        self, observation: Float[Array | np.ndarray, "*batch observation"], *, key: PRNGKeyArray
    ) -> Float[Array, "*batch action"]:
        """A change of the controls as in training: with the noise that the policy explored with."""
        mean = self.mean(observation)
        return self.squash(
            mean + jnp.exp(self.log_deviation) * jax.random.normal(key, mean.shape, mean.dtype)
        )

    def squash(self, action: Float[Array, "*batch action"]) -> Float[Array, "*batch action"]:
        """The change of the controls that an action stands for."""
        return self.contract.change * jnp.tanh(action)

    def check_environment(self, env: TaskEnvironment) -> None:
        """Refuse, by name, another task, observation, largest change, rate, joints or controls."""
        mine, theirs = self.contract, env.task.settings
        if mine.task != theirs.name:
            raise PolicyError(
                f"The policy was trained for the task {mine.task!r}, not for {theirs.name!r}."
            )
        layout = tuple((part.name, part.size) for part in mine.layout)
        if layout != env.layout:
            one, other = (
                listing(f"{name} {size}" for name, size in parts) for parts in (layout, env.layout)
            )
            raise PolicyError(
                f"The policy was trained on observations of {one} in this order and the environment gives {other}; use "
                "a policy trained in it."
            )
        if not math.isclose(mine.change, theirs.action_scale, rel_tol=1e-6):
            raise PolicyError(
                f"The policy was trained to change a control by up to {mine.change:g} in a period and the environment "
                f"has {theirs.action_scale:g}; give --task.action-scale {mine.change:g}."
            )
        simulator, actuators = env.simulator, env.simulator.drive.ensemble.contract
        channels = Channels(
            simulator.scene.dt,
            actuators.joints,
            actuators.controls,
            np.array([simulator.u_lower, simulator.u_upper]),
            actuators.joint_units,
            actuators.control_units,
        )
        mine.check_channels(channels, whose="the environment", repeat=theirs.action_repeat)

    def was_trained_on(self, ensemble: Ensemble) -> bool:
        """Whether these are the actuators that it was trained on, to the bit."""
        return self.contract.actuators_sha256 == actuator_fingerprint(ensemble)

    def _standardised(
        self, x: Float[Array, "*batch observation"]
    ) -> Float[Array, "*batch observation"]:
        if x.shape[-1:] != (self.contract.observations,):
            raise PolicyError(
                f"An observation must have the shape [..., {self.contract.observations}] "
                f"({', '.join(f'{part.name} {part.size}' for part in self.contract.layout)}), not {list(x.shape)}."
            )
        x = (x - self.scale_mean) / self.scale_deviation
        return (
            x
            if self.contract.clip is None
            else jnp.clip(x, -self.contract.clip, self.contract.clip)
        )


def actuator_fingerprint(ensemble: Ensemble) -> str:
    """Checksum of the weights and scaling: the ``weights_sha256`` of the artifact that they are
    saved as."""
    return hashlib.sha256(tensor_bytes(actuator_tensors(ensemble))).hexdigest()


def _words(task: str, channels: Channels) -> dict[str, str]:
    """What the parts of an observation are, with their units."""
    q, u = (
        ", ".join(dict.fromkeys(units)) for units in (channels.joint_units, channels.control_units)
    )
    qd = ", ".join(f"{unit}/s" for unit in dict.fromkeys(channels.joint_units))
    own = task_entry(task).observation
    return {
        "q": f"joint positions [{q}]",
        "qd": f"joint velocities [{qd}]",
        "u": f"controls that were commanded last [{u}]",
        **{name: words.replace("{q}", q) for name, words in own.items()},
    }


def _json(record: dict[str, Any]) -> str:
    return json.dumps(_plain(record), sort_keys=True)


def _plain(value: Any) -> Any:
    """As JSON can hold it: a number that is not finite becomes null, which every reader
    understands."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


# --- A policy on disk: a sealed folder (``genan.files``) with ``policy.safetensors`` (weights


def save(policy: Policy, folder: Path | str) -> Path:
    """Write the artifact into ``folder``, replacing one that is there; each file appears whole or
    not at all.

    A policy with numbers that are not finite is refused: nothing could load it.
    """
    arrays = tensors(policy)
    KIND.check_arrays(arrays, policy.contract.shapes, where="The policy")
    return KIND.write(folder, arrays, contract=policy.contract.settings(), record=policy.record)


def load(folder: Path | str) -> Policy:
    """Read an artifact and check it: format, checksums, shapes, finite numbers."""
    settings, arrays = KIND.read(folder)
    contract = PolicyContract.from_settings(settings["contract"])
    KIND.check_arrays(arrays, contract.shapes, where=str(Path(folder) / WEIGHTS))
    count = len(contract.hidden) + 1
    return Policy(
        contract,
        tuple(
            Layer(
                jnp.asarray(arrays[f"layers.{k}.weight"]), jnp.asarray(arrays[f"layers.{k}.bias"])
            )
            for k in range(count)
        ),
        *(jnp.asarray(arrays[name]) for name in ("scale.mean", "scale.deviation", "log_deviation")),
        json.dumps(settings["record"], sort_keys=True),
    )


def tensors(policy: Policy) -> dict[str, np.ndarray]:
    """Weights and scale by name; ``layers.0.weight`` is [inputs, outputs]."""
    named = {}
    for k, layer in enumerate(policy.layers):
        named[f"layers.{k}.weight"], named[f"layers.{k}.bias"] = layer.weight, layer.bias
    named |= {"scale.mean": policy.scale_mean, "scale.deviation": policy.scale_deviation}
    named["log_deviation"] = policy.log_deviation
    return {name: np.ascontiguousarray(array, np.float32) for name, array in named.items()}


def contract_text(policy: Policy, weights: bytes) -> str:
    """``policy.json`` for ``policy`` whose weights file has the bytes ``weights``."""
    return KIND.text(weights, contract=policy.contract.settings(), record=policy.record)


__all__ = ["CONTRACT", "KIND", "WEIGHTS", "contract_text", "load", "save", "tensors"]
