"""Films without drawing."""

import numpy as np

from genan.viewer.rendering import Renderer, Stage


class Nothing(Renderer):
    """A renderer whose pictures are all grey: films are written at once."""

    def __init__(self, stage: Stage, *, size: tuple[int, int] = (64, 36)) -> None:
        self.stage = stage

    def frame(self, now) -> np.ndarray:
        self.stage.place(now)
        return np.full((36, 64, 3), 200, np.uint8)

    def restart(self) -> None:
        pass
