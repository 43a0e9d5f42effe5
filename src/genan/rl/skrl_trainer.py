"""``SkrlTraining``: the same training with skrl's PPO in place of genan's (``genan train --trainer
skrl``).

Task, settings, judging and the policy that comes out are the same. What skrl cannot do is go on
after an interruption, since its checkpoints leave out where the episodes stand: a training that is
stopped ends with the policy as it is then.
"""

import importlib
import logging
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from genan import checkpoint
from genan.errors import SettingError
from genan.rl import artifact
from genan.rl.judge import Verdict
from genan.rl.policy import Policy
from genan.rl.ppo import Learner
from genan.rl.train import ProgressFunction, Training

_log = logging.getLogger(__name__)

UNROLLED = 256
"""Rollouts beyond which skrl takes minutes to compile: it unrolls the advantages step by step (512
steps: 389 s on 2 cores)."""


class SkrlTraining(Training):
    """One training by skrl; arguments and attributes are those of ``Training``."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Check that skrl is there, and everything else as ``Training`` does."""
        self.version = require_skrl()
        super().__init__(*arguments, **options)

    def run(
        self,
        *,
        progress: ProgressFunction | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> Policy | None:
        """Train to the end or until ``stopping`` says so, judge and save the policy; None if
        nothing was learnt yet."""
        found = super().run(progress=progress, stopping=stopping)
        if found is not None or not self.steps:
            return found
        _log.warning(
            "stopped after %s steps: a training by skrl cannot go on later, so the policy is kept and judged as it is",
            f"{self.steps:,}",
        )
        return self._finish()

    def policy(self, verdict: Verdict | None = None) -> Policy:
        """The policy as it is now."""
        planned = self.updates * self.ppo.steps_per_update
        return (
            super()
            .policy(verdict)
            .with_record(trainer=f"skrl {self.version}", steps_planned=planned)
        )

    def _begin(self) -> Learner:
        from genan.rl.skrl_ppo import SkrlPPO

        if self.ppo_settings.rollouts > UNROLLED:
            _log.warning(
                "skrl unrolls the advantages of %d steps when it compiles, which takes minutes; lower --ppo.rollouts "
                "to %d or less, or take --trainer genan",
                self.ppo_settings.rollouts,
                UNROLLED,
            )
        self.ppo = SkrlPPO(self.env, self.ppo_settings)  # type: ignore[assignment]  # used in the same way
        return super()._begin()

    def _resume(self) -> None:
        """Nothing to take up; an unfinished training of genan's own is left alone."""
        self._saved = time.perf_counter()
        self.resumed = 0
        if self.out is None:
            return
        if (self.out / checkpoint.NAME).exists():
            raise SettingError(
                f"{self.out} holds an unfinished training that skrl cannot go on with; take --trainer genan, give "
                "another --out, or --overwrite to begin anew."
            )
        self.out.mkdir(parents=True, exist_ok=True)

    def _save(self) -> None:
        """The policy so far, in place of a checkpoint."""
        if self.out is not None and self.steps:
            artifact.save(self.policy(), self.out)
        self._saved = time.perf_counter()


def require_skrl() -> str:
    """The version of skrl that is installed; refuses where it is missing or has another
    interface."""
    try:
        importlib.import_module("skrl")
        importlib.import_module("flax")
    except ImportError as error:
        raise SettingError(
            f"The trainer skrl needs the package {error.name or 'skrl'}, which is not installed; get it with: "
            "pip install 'genan[skrl]'."
        ) from None
    found = version("skrl")
    if not found.startswith("2."):
        raise SettingError(
            f"The trainer skrl needs skrl 2, not {found}; get it with: pip install 'genan[skrl]'."
        )
    return found


__all__ = ["SkrlTraining", "require_skrl"]
