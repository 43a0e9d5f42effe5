"""``Trajectories``: what was recorded, in memory. Trajectories of unequal length, one after the
other."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, SupportsIndex

import numpy as np
from jaxtyping import Bool, Float, Int

from genan.data.channels import Channels
from genan.data.checks import check_indices, check_samples, differences, provenance_text, rows_of
from genan.data.names import checked_names, joined_names, recording_numbers
from genan.errors import DataError
from genan.robot import Robot


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One uninterrupted recording."""

    q: Float[np.ndarray, "T nq"]
    """Joint positions [rad or m]."""
    u: Float[np.ndarray, "T nu"]
    """Controls, in their units; row t is what was commanded while q moved from t to t + 1."""
    dt: float
    """Sampling period [s]."""

    def __len__(self) -> int:
        return len(self.q)

    @property
    def duration(self) -> float:
        """Number of samples times dt [s]."""
        return len(self.q) * self.dt


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Recorded joint positions and controls, checked on construction: finite, within range, long
    enough.

    The rows of all trajectories follow each other in ``q`` and ``u``; ``lengths`` cuts them.
    Nothing may be differentiated or split across a cut.
    """

    channels: Channels
    """What the columns mean; its fields can be read here too, as ``trajectories.dt`` and so on."""
    q: np.ndarray
    """[rows, nq]: joint positions [rad or m]."""
    u: np.ndarray
    """[rows, nu]: controls, in their units."""
    lengths: np.ndarray
    """[N]: samples of each trajectory."""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Where this comes from (robot, seed, versions, ...); anything JSON can hold."""
    recordings: tuple[str, ...] = ()
    """[N]: name of the recording that each trajectory is a piece of; left out: "0", "1", ..., each
    its own. Pieces of one recording (cut at a gap, or read at several phases) are alike, so nothing
    may learn from one and be tested on another."""

    def __post_init__(self) -> None:
        for name, dtype in (("q", np.float64), ("u", np.float64), ("lengths", np.int64)):
            array = np.ascontiguousarray(getattr(self, name), dtype=dtype).view()
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        object.__setattr__(self, "provenance", json.loads(provenance_text(self.provenance)))
        check_samples(self.channels, self.q, self.u, self.lengths)
        object.__setattr__(self, "recordings", checked_names(self.recordings, len(self.lengths)))

    @classmethod
    def from_list(
        cls,
        channels: Channels,
        pairs: Sequence[tuple[np.ndarray, np.ndarray]],
        *,
        provenance: Mapping[str, Any] | None = None,
        recordings: Sequence[str] = (),
    ) -> "Trajectories":
        """From one pair (q [T, nq], u [T, nu]) per trajectory; T may differ between them.

        Args:
            channels: what the columns mean.
            pairs: positions [rad or m] and controls of each trajectory.
            provenance: where this comes from.
            recordings: name of the recording of each trajectory [N]; left out: each is its own.
        """
        for number, (q, u) in enumerate(pairs):
            check_samples(channels, q, u, np.array([len(q)]), numbers=[number])
        return cls(
            channels=channels,
            q=np.concatenate([q for q, _ in pairs]) if pairs else np.zeros((0, channels.nq)),
            u=np.concatenate([u for _, u in pairs]) if pairs else np.zeros((0, channels.nu)),
            lengths=np.array([len(q) for q, _ in pairs], dtype=np.int64),
            provenance=provenance or {},
            recordings=tuple(recordings),
        )

    @classmethod
    def concatenate(cls, parts: Sequence["Trajectories"]) -> "Trajectories":
        """All trajectories of several recordings with the same channels, in order."""
        if not parts:
            raise DataError("There is nothing to concatenate; give at least one recording.")
        for number, part in enumerate(parts):
            differing = differences(
                parts[0].channels.settings(), part.channels.settings(), "the first has", "this one"
            )
            if differing:
                raise DataError(
                    f"Recording {number} (counted from 0) does not fit the first: {differing}."
                )
        origins = [part.provenance for part in parts]
        same = all(origin == origins[0] for origin in origins)
        return cls(
            channels=parts[0].channels,
            q=np.concatenate([part.q for part in parts]),
            u=np.concatenate([part.u for part in parts]),
            lengths=np.concatenate([part.lengths for part in parts]),
            provenance=origins[0] if same else {"concatenated": origins},
            recordings=joined_names(
                [part.recordings for part in parts], same_origin=same and bool(origins[0])
            ),
        )

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: SupportsIndex) -> Trajectory:
        """Trajectory ``index`` as a view, counted from 0 (or from the end when negative)."""
        number = range(len(self))[index]
        rows = slice(self.offsets[number], self.offsets[number + 1])
        return Trajectory(self.q[rows], self.u[rows], self.dt)

    def __iter__(self) -> Iterator[Trajectory]:
        return (self[index] for index in range(len(self)))

    @property
    def dt(self) -> float:
        """Sampling period [s]."""
        return self.channels.dt

    @property
    def joints(self) -> tuple[str, ...]:
        """Name of each column of q."""
        return self.channels.joints

    @property
    def joint_units(self) -> tuple[str, ...]:
        """Unit of each column of q, "rad" or "m"."""
        return self.channels.joint_units

    @property
    def controls(self) -> tuple[str, ...]:
        """Name of each column of u."""
        return self.channels.controls

    @property
    def control_units(self) -> tuple[str, ...]:
        """Unit of each column of u."""
        return self.channels.control_units

    @property
    def control_range(self) -> Float[np.ndarray, "2 nu"]:
        """Lowest and highest value each control may take, in its unit."""
        return self.channels.control_range

    @cached_property
    def offsets(self) -> Int[np.ndarray, " cuts"]:
        """Trajectory i occupies the rows ``offsets[i]`` to ``offsets[i + 1] - 1``."""
        return np.concatenate([[0], np.cumsum(self.lengths)])

    @cached_property
    def recording_numbers(self) -> Int[np.ndarray, " N"]:
        """Number of each trajectory's recording, counted from 0 in the order in which the
        recordings first appear."""
        return recording_numbers(self.recordings)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of names, units, dt, lengths, q and u: the same for the same content, however it
        is stored."""
        settings = {
            key: value for key, value in self.channels.settings().items() if key != "control_range"
        }
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        for array, dtype in ((self.lengths, "<i8"), (self.q, "<f8"), (self.u, "<f8")):
            digest.update(np.ascontiguousarray(array, dtype=dtype).data)
        return digest.hexdigest()

    def select(self, indices: Sequence[int] | np.ndarray) -> "Trajectories":
        """The trajectories at ``indices`` (counted from 0), in that order, as a copy."""
        chosen = check_indices(indices, len(self))
        rows = rows_of(self.offsets[chosen], self.lengths[chosen])
        names = tuple(self.recordings[index] for index in chosen)
        return Trajectories(
            self.channels, self.q[rows], self.u[rows], self.lengths[chosen], self.provenance, names
        )

    def padded(
        self,
    ) -> tuple[Float[np.ndarray, "N T nq"], Float[np.ndarray, "N T nu"], Bool[np.ndarray, "N T"]]:
        """(q [N, T, nq], u [N, T, nu], mask [N, T]): T is the longest; padding is zero and its mask
        False."""
        mask = np.arange(self.lengths.max()) < self.lengths[:, None]
        q = np.zeros((*mask.shape, self.channels.nq))
        u = np.zeros((*mask.shape, self.channels.nu))
        q[mask], u[mask] = self.q, self.u
        return q, u, mask

    def check_robot(self, robot: Robot) -> None:
        """Refuse, by name, a robot with other joints, controls, units or rate, or narrower control
        ranges."""
        self.channels.check_robot(robot)
        try:
            check_samples(Channels.of_robot(robot), self.q, self.u, self.lengths)
        except DataError as error:
            raise DataError(
                f"Robot {robot.name!r} cannot have made this recording: {error}"
            ) from None
