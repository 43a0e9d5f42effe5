"""Models to beat: what a prediction costs nothing, what a linear one gives, what a torque sensor
would buy."""

from genan.actuator.baselines import (
    Arx,
    Baseline,
    ConstantVelocity,
    StandingStill,
    one_step,
    open_loop,
)

__all__ = ["Arx", "Baseline", "ConstantVelocity", "StandingStill", "one_step", "open_loop"]
