"""``Scene``: the bodies that a simulator moves, the arm first among them."""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Array, Float


@runtime_checkable
class Scene(Protocol):
    """An arm, and whatever else there is: functions of one state, batched by ``vmap``.

    The state is a pytree of arrays of the scene's own making.
    """

    @property
    def nq(self) -> int:
        """Number of joints."""

    @property
    def dt(self) -> float:
        """Time step [s]."""

    def q(self, state: Any) -> Float[Array, " nq"]:
        """Joint positions [rad or m]."""

    def qd(self, state: Any) -> Float[Array, " nq"]:
        """Joint velocities [rad/s or m/s]."""

    def step(self, state: Any, tau: Float[Array, " nq"]) -> Any:
        """The scene one ``dt`` later, under the joint torques ``tau`` [N m or N]."""
