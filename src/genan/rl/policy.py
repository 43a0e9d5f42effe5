"""``Policy``: what was learnt. A frozen pytree: pass it through ``jit``, ``vmap`` and ``scan`` as
it is. On disk it is a sealed folder (``genan.files``) with ``policy.safetensors`` (weights and
scale) and ``policy.json`` (the contract, how it was trained, how good it is)."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, final

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from safetensors.numpy import save as tensor_bytes

from genan.actuator import Ensemble
from genan.actuator.ensemble import Layer
from genan.actuator.ensemble import tensors as actuator_tensors
from genan.data import Channels
from genan.errors import refuse
from genan.provenance import versions
from genan.rl.config import PPOSettings
from genan.rl.contract import KIND, ObservationPart, PolicyContract, PolicyError, read_policy
from genan.rl.ppo import ACTIVATION_FUNCTIONS, CLIP, EPSILON, POLICY, AgentState
from genan.robot import Robot
from genan.tasks.registry import task_entry
from genan.tasks.task import TaskEnvironment

Observations = Float[Array | np.ndarray, "*batch observation"]
Actions = Float[Array, "*batch action"]


@final
class Policy(eqx.Module):
    """A trained policy: from observations to what is added to the controls [..., nu]."""

    contract: PolicyContract = eqx.field(static=True)  # Task, robot, rate, observation and shape.
    layers: tuple[Layer, ...]  # The policy network; weights are [inputs, outputs].
    scale_mean: Float[Array, " observation"]  # What is subtracted from an observation.
    scale_std: Float[Array, " observation"]  # What the rest is divided by.
    log_std: Float[Array, " action"]  # Log of the actions' std in training, before squashing.
    record_json: str = eqx.field(static=True, default="{}")  # See ``record``.

    @classmethod
    def of(
        cls, agent: AgentState, env: TaskEnvironment, robot: Robot, ppo: PPOSettings, record: Any
    ) -> "Policy":
        """What ``agent`` has learnt in ``env`` so far; settings and versions join its record."""
        task, scaler = env.task.settings, agent.observation_scaler
        channels = Channels.of_robot(robot)
        words, unknown = _words(task.name, channels), "as the task gives it"
        names = ("dt", "joints", "joint_units", "controls", "control_units")
        contract = PolicyContract(
            task=task.name,
            constants_json=json.dumps(task.settings(), sort_keys=True),
            robot=robot.name,
            u_range=tuple((float(low), float(high)) for low, high in channels.control_range.T),
            action_repeat=task.action_repeat,
            action_scale=task.action_scale,
            layout=tuple(ObservationPart(n, size, words.get(n, unknown)) for n, size in env.layout),
            clip=CLIP if scaler.active else None,
            hidden=ppo.hidden,
            activation=ppo.activation,
            actuators_sha256=actuator_fingerprint(env.simulator.ensemble),
            **{name: getattr(channels, name) for name in names},
        )
        # A scaler that is off keeps its first mean 0 and variance 1, without the epsilon.
        std = jnp.sqrt(scaler.variance) + (EPSILON if scaler.active else 0.0)
        text = _json({"ppo": ppo.settings(), "versions": versions(), **record})
        layers, log_std = agent.networks.of(POLICY), agent.networks.bounded(ppo)
        policy = cls(contract, layers, scaler.mean, std, log_std, text)
        policy.check_environment(env)
        return policy

    @classmethod
    def load(cls, folder: Path | str) -> "Policy":
        """Read a policy and check it: format, checksums, shapes, finite numbers.

        Args:
            folder: the --out of ``genan train``, or a bundled policy's name (TASK, or ROBOT/TASK).
        """
        contract, record, arrays = read_policy(folder)
        *flat, mean, std, log_std = (jnp.asarray(arrays[name]) for name in contract.shapes)
        layers = tuple(map(Layer, flat[::2], flat[1::2]))
        return cls(contract, layers, mean, std, log_std, _json(record))

    def save(self, folder: Path | str) -> Path:
        """Write the policy into ``folder``, replacing one that is there; each file appears whole or
        not at all. Numbers that are not finite are refused."""
        arrays = self.tensors()
        KIND.check_arrays(arrays, self.contract.shapes, where="The policy")
        return KIND.write(folder, arrays, contract=self.contract.settings(), record=self.record)

    def tensors(self) -> dict[str, np.ndarray]:
        """Weights and scale by name; ``layers.0.weight`` is [inputs, outputs]."""
        arrays = [array for layer in self.layers for array in (layer.weight, layer.bias)]
        arrays += [self.scale_mean, self.scale_std, self.log_std]
        named = zip(self.contract.shapes, arrays, strict=True)
        return {name: np.ascontiguousarray(array, np.float32) for name, array in named}

    @property
    def record(self) -> Any:
        """How it was trained (settings of PPO, steps, seed, versions) and how good it is."""
        return json.loads(self.record_json)

    def with_record(self, **entries: Any) -> "Policy":
        """The same policy with these entries added to its record, or replaced in it."""
        return replace(self, record_json=_json({**self.record, **entries}))

    def __repr__(self) -> str:
        success, judged = "not judged", self.record.get("judged")
        if judged:
            success = f"success {100 * judged['success']:.1f} % of {judged['episodes']} episodes"
        return f"Policy({self.contract.task} on {self.contract.robot}, {success})"

    def __call__(self, observation: Observations) -> Actions:
        """The action: what is added to the controls in each period of the robot until the policy's
        next step [..., nu], in the controls' units.

        Args:
            observation: as the contract's ``layout`` says [..., n], not standardised.
        """
        return jnp.asarray(self.contract.action_scale) * jnp.tanh(self.mean(observation))

    def mean(self, observation: Observations) -> Actions:
        """The network's output, before the squashing: what ``TaskEnvironment.step`` takes."""
        x, contract, size = jnp.asarray(observation), self.contract, self.contract.observations
        shape = f"[..., {size}] ({contract.words}), not {list(x.shape)}"
        wrong = f"An observation must have the shape {shape}."
        refuse((x.shape[-1:] != (size,), wrong), error=PolicyError)
        x = (x - self.scale_mean) / self.scale_std
        if contract.clip is not None:
            x = jnp.clip(x, -contract.clip, contract.clip)
        activation = ACTIVATION_FUNCTIONS[contract.activation]
        for k, layer in enumerate(self.layers):
            x = activation(x) if k else x
            x = jnp.matmul(x, layer.weight, precision="highest") + layer.bias
        return x

    def sample(self, observation: Observations, *, key: PRNGKeyArray) -> Actions:
        """An action as in training: with the noise that the policy explored with."""
        mean = self.mean(observation)
        noise = jax.random.normal(key, mean.shape, mean.dtype)
        action = jnp.tanh(mean + jnp.exp(self.log_std) * noise)
        return jnp.asarray(self.contract.action_scale) * action

    def check_environment(self, env: TaskEnvironment) -> None:
        """Refuse, by name, another task, observation, action scale, rate, joints or controls."""
        contract, theirs = self.contract, env.task.settings
        contract.check_task(theirs, ", ".join(f"{name} {size}" for name, size in env.layout))
        simulator, made = env.simulator, env.simulator.ensemble.contract
        bounds = np.array([simulator.u_lower, simulator.u_upper])
        units = made.joint_units, made.control_units
        channels = Channels(simulator.scene.dt, made.joints, made.controls, bounds, *units)
        contract.check_channels(channels, whose="the environment", repeat=theirs.action_repeat)

    def was_trained_on(self, ensemble: Ensemble) -> bool:
        """Whether these are the actuators that it was trained on, to the bit."""
        return self.contract.actuators_sha256 == actuator_fingerprint(ensemble)


def actuator_fingerprint(ensemble: Ensemble) -> str:
    """Checksum of the actuators' weights: the ``weights_sha256`` of their artifact."""
    return hashlib.sha256(tensor_bytes(actuator_tensors(ensemble))).hexdigest()


def _words(task: str, channels: Channels) -> dict[str, str]:
    """What the parts of an observation are, with their units."""
    joints, controls = map(dict.fromkeys, (channels.joint_units, channels.control_units))
    q, u = ", ".join(joints), ", ".join(controls)
    qd = ", ".join(f"{unit}/s" for unit in joints)
    found = {"q": f"joint positions [{q}]", "qd": f"joint velocities [{qd}]"}
    found["u"] = f"controls that were commanded last [{u}]"
    return found | {n: w.replace("{q}", q) for n, w in task_entry(task).observation.items()}


def _json(record: dict[str, Any]) -> str:
    """As JSON can hold it: a number that is not finite becomes null."""
    plain = lambda value: value.tolist() if hasattr(value, "tolist") else str(value)
    text = json.dumps(record, default=plain)
    return json.dumps(json.loads(text, parse_constant=lambda _: None), sort_keys=True)
