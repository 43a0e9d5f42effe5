"""Models to beat: what a prediction costs nothing, what a linear one gives, what a torque sensor
would buy."""

from genan.actuator.baselines.arx import Arx
from genan.actuator.baselines.base import Baseline, one_step, open_loop
from genan.actuator.baselines.no_model import ConstantVelocity, StandingStill

__all__ = ["Arx", "Baseline", "ConstantVelocity", "StandingStill", "one_step", "open_loop"]
