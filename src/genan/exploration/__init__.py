"""What should I record? Excitation signals for the controls."""

from genan.exploration.signals import Chirp, Multisine, Signal, Spline

__all__ = ["Chirp", "Multisine", "Signal", "Spline"]
