"""Shape of the network, and what is known of it before there is one."""

from dataclasses import dataclass
from itertools import pairwise

from genan.errors import SettingError, listing

ACTIVATIONS = ("tanh", "relu", "elu", "softsign")
"""What a hidden layer can end in; all of them are exported too."""


@dataclass(frozen=True)
class Architecture:
    """Shape of the network."""

    hidden: tuple[int, ...] = (512, 512)
    """Neurons of each hidden layer."""
    activation: str = "tanh"
    """What each hidden layer ends in."""
    skip: bool = False
    """Whether a linear function of the inputs is added to what the hidden layers give."""

    def __post_init__(self) -> None:
        if any(width < 1 for width in self.hidden):
            raise SettingError(
                f"Every hidden layer needs at least one neuron, got {list(self.hidden)}."
            )
        if self.activation not in ACTIVATIONS:
            raise SettingError(
                f"There is no activation {self.activation!r}; there are: {listing(ACTIVATIONS)}."
            )

    def sizes(self, inputs: int, outputs: int) -> list[tuple[int, int]]:
        """(inputs, outputs) of each layer."""
        widths = [inputs, *self.hidden, outputs]
        return list(pairwise(widths))
