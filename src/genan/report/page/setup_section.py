"""With what all of it was made: settings, versions, hardware; and a warning where versions
differ."""

from collections.abc import Iterator, Mapping

from genan.report.page.gather import Material
from genan.report.page.markup import Markup, Part, joined, table, tag
from genan.report.page.sections import Sheet, settings_table
from genan.report.page.words import plural

#: Runs that a warning names, at most.
NAMED = 4


def version_warning(material: Material) -> str | None:
    """A sentence where runs come from different versions of genan."""
    made: dict[str, list[str]] = {}
    for label, versions in made_with(material):
        if "genan" in versions:
            made.setdefault(versions["genan"], []).append(label)
    if len(made) < 2:
        return None
    parts = []
    for version in sorted(made):
        labels = list(dict.fromkeys(made[version]))
        more = f" and {len(labels) - NAMED} more" if len(labels) > NAMED else ""
        parts.append(f"{version} made {', '.join(labels[:NAMED])}{more}")
    return (
        f"These runs come from {len(made)} versions of genan, so numbers may differ for that reason alone: "
        f"{'; '.join(parts)}."
    )


def made_with(material: Material) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Each run that says so, and the versions it was made with."""
    for group in (
        material.inspections,
        material.actuators,
        material.evaluations,
        material.policies,
    ):
        for found in group:
            if found.content.versions:
                yield found.label, found.content.versions
    for transfer in material.transfers:
        versions = transfer.content.about.get("versions")
        if isinstance(versions, dict):
            yield transfer.label, {str(name): str(version) for name, version in versions.items()}
    for study in material.studies:
        for job in study.content.jobs:
            if job.versions:
                yield study.label, job.versions


def setup_section(material: Material, sheet: Sheet) -> Markup:
    """Versions, hardware and settings."""
    parts: list[Part] = [tag("h3", "Versions"), _versions(material)]
    hardware = _hardware(material)
    if hardware:
        parts += [tag("h3", "Hardware"), table(["runs", "hardware"], hardware)]
    settings = [
        tag(
            "details",
            tag("summary", f"{kind} {found.label}"),
            settings_table(found.content.settings),
        )
        for kind, group in (("Actuators", material.actuators), ("Policy", material.policies))
        for found in group
        if found.content.settings
    ]
    for transfer in material.transfers:
        known = {
            name: value
            for name, value in transfer.content.about.items()
            if name not in ("contract", "versions")
        }
        if known:
            settings.append(
                tag("details", tag("summary", f"Trials {transfer.label}"), settings_table(known))
            )
    if settings:
        parts += [tag("h3", "Configuration"), *settings]
    return joined(parts)


def _versions(material: Material) -> Part:
    """Packages down, versions that occur and how many runs have each."""
    counted: dict[str, dict[str, list[str]]] = {}
    for label, versions in made_with(material):
        for name, version in versions.items():
            labels = counted.setdefault(name, {}).setdefault(version, [])
            if label not in labels:
                labels.append(label)
    if not counted:
        return tag("p", "No run says what it was made with.")
    rows: list[list[Part]] = []
    for name in sorted(counted, key=lambda name: (name != "genan", name != "python", name)):
        for version in sorted(counted[name]):
            labels = counted[name][version]
            shown = ", ".join(labels[:NAMED]) + (
                f" and {len(labels) - NAMED} more" if len(labels) > NAMED else ""
            )
            rows.append([name, version, shown])
    return table(["package", "version", "runs"], rows)


def _hardware(material: Material) -> list[list[Part]]:
    found: dict[str, list[str]] = {}
    for study in material.studies:
        for job in study.content.jobs:
            if job.hardware:
                words = ", ".join(f"{name} {job.hardware[name]}" for name in sorted(job.hardware))
                found.setdefault(words, []).append(
                    f"study {study.content.study} ({study.content.size})"
                )
    for fitted in material.actuators:
        if fitted.content.device:
            found.setdefault(f"fitted on: {fitted.content.device}", []).append(fitted.label)
    rows: list[list[Part]] = []
    for words, labels in sorted(found.items()):
        different = list(dict.fromkeys(labels))
        shown = ", ".join(different[:NAMED])
        more = len(different) - NAMED
        rows.append([f"{shown} and {plural(more, 'other')}" if more > 0 else shown, words])
    return rows
