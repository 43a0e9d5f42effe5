"""What would the bare arm do? Rigid-body functions of one state, checked against MuJoCo C."""

from genan.dynamics.base import Dynamics
from genan.dynamics.chain import ChainDynamics, load_dynamics

__all__ = ["ChainDynamics", "Dynamics", "load_dynamics"]
