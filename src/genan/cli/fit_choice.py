"""``genan fit`` with few data: the model is chosen by cross-validation, with a table of what was
tried."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genan.actuator.fit import Progress as Training
    from genan.actuator.selection import Choice
    from genan.cli.fit import Fit
    from genan.data.inspection.lag import Lag


def choose(console: Any, asked: "Fit", *, lag: "Lag") -> int:
    """Choose, fit, print; exit code. ``lag``: what the recording shows of the commands' delay."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from genan.actuator.selection import Choosing
    from genan.cli import INTERRUPTED
    from genan.cli.fit import keep_reference
    from genan.cli.terminal import interruptible

    choosing = Choosing(
        asked.data,
        asked.robot,
        asked.settings,
        out=asked.out,
        delays=_delays(console, asked, lag),
        overwrite=asked.overwrite,
    )
    recordings = len(set(choosing.trajectories.recordings))
    console.print(
        f"{recordings} recordings, {len(choosing.trajectories.q)} samples: the model is chosen by cross-validation."
    )
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console
    )
    tasks: dict[str, Any] = {}

    def show(name: str, number: int, total: int, now: "Training | None") -> None:
        if name not in tasks:
            for task in tasks.values():
                bar.update(task, completed=1.0)
            tasks[name] = bar.add_task(f"{number} of {total}: {name}", total=1.0)
        if now is not None:
            bar.update(tasks[name], completed=(now.epoch + now.share) / now.epochs)

    with interruptible() as interrupt, bar:
        found = choosing.run(report=show, stopping=lambda: interrupt.requested)
    if found is None:
        console.print(
            f"stopped; what was finished is safe in {asked.out}, and the same command goes on from there."
        )
        return INTERRUPTED
    ensemble, choice = found
    print_choice(console, choice)
    for sentence in ensemble.contract.servos:
        console.print(sentence)
    keep_reference(ensemble, asked.data, asked.out)
    console.print(
        f"{ensemble.members} {'models' if choice.chosen.candidate.linear else 'networks'} in {asked.out}."
    )
    console.print(f"Next: genan evaluate --actuators {asked.out} --data TEST.h5")
    return 0


def print_choice(console: Any, choice: "Choice") -> None:
    """What was tried, with errors on what each had left out, and the choice in words."""
    import numpy as np
    from rich import box
    from rich.table import Table

    mixed = len(set(choice.units)) > 1
    unit, factor = (
        ("rad or m", 1.0)
        if mixed
        else ("deg", 180.0 / np.pi)
        if choice.units[0] == "rad"
        else ("m", 1.0)
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("model", no_wrap=True)
    for column in (f"one step [{unit}]", f"{choice.steps * choice.dt:.3g} s [{unit}]", "score"):
        table.add_column(column, justify="right", no_wrap=True)
    lines: list[tuple[str, Any, float | None, bool]] = [
        (one.candidate.name, one.errors, one.score, one is choice.chosen) for one in choice.judged
    ]
    lines += [(one.name, one, None, False) for one in choice.baselines]
    for name, errors, score, chosen in lines:
        table.add_row(
            name,
            f"{factor * float(np.mean(errors.one_step)):.3g}",
            f"{factor * float(np.mean(errors.rollout)):.3g}",
            "" if score is None else f"{score:.3f}",
            style="bold" if chosen else None,
        )
    console.print(table)
    console.print("Root mean square errors on recordings left out, mean over the joints.")
    for sentence in choice.sentences:
        console.print(sentence)


def _delays(console: Any, asked: "Fit", lag: "Lag") -> tuple[int, ...]:
    """Delays to choose from [samples]: the one that was given, or none and the one that the
    recording shows."""
    if asked.settings.delay:
        return (asked.settings.delay,)
    if not lag.steps:
        return (0,)
    console.print(
        f"Commands seem to act {lag.steps} samples ({1e3 * lag.steps * lag.dt:.3g} ms) late: that is tried."
    )
    return tuple(
        sorted({0, lag.steps - 1, lag.steps})
    )  # it is right to a sample, and one too many hides the command
