"""What would the real arm do? Actuator networks and rigid bodies, stepped together for many robots
at once."""

from genan.simulation.arm import ArmScene, ArmState
from genan.simulation.scene import Scene
from genan.simulation.simulator import Simulator, SimulatorState

__all__ = ["ArmScene", "ArmState", "Scene", "Simulator", "SimulatorState"]
