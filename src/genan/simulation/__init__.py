"""What would the real arm do? Actuator networks and rigid bodies, many robots at once."""

from genan.simulation.simulator import ArmScene, ArmState, Scene, Simulator, SimulatorState

__all__ = ["ArmScene", "ArmState", "Scene", "Simulator", "SimulatorState"]
