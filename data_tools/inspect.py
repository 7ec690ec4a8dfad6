"""What a folder of recordings, or one of them, holds, and what is wrong with it: python -m data_tools.inspect RAW"""

import argparse
import json
import os
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data_tools import archive, check, cohorts, console, files, findings, formats, hints, own_labels, pool, privacy
from data_tools import look as looking
from data_tools.archive import Archive
from data_tools.cohorts import OWN
from data_tools.console import progress, say, shown
from data_tools.crops import LEADS, RATE
from data_tools.findings import Finding
from data_tools.hints import Hints
from data_tools.labels import class_names
from data_tools.look import Look
from data_tools.own_labels import Labels

_PER_TASK = 100
_EPILOG = """examples:
  python -m data_tools.inspect raw/challenge-2021
  # one recording, as cardiologists lay it out
  python -m data_tools.inspect raw/challenge-2021/training/georgia/g1/E00001.hea --plot E00001.png
  # arrays that say nothing of themselves
  python -m data_tools.inspect arrays --rate 400 --unit mV --leads I,II,V2
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m data_tools.inspect",
        description="Says what recordings are there, and what is wrong with them; changes nothing.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("path", metavar="RAW_OR_RECORDING", type=Path)
    parser.add_argument("--json", action="store_true", help="for programs; names of your own recordings are hashes")
    parser.add_argument("--plot", type=Path, metavar="PNG", help="of one recording: the sheet, 25 mm/s and 10 mm/mV")
    parser.add_argument("--labels", type=Path, metavar="CSV", help="of your own recordings, as for shard")
    parser.add_argument("--workers", type=int, metavar="N", help="processes (default: one a core)")
    hints.add_flags(parser)
    return console.run(_inspect, parser.parse_args(), interrupted="nothing was changed")


def _inspect(arguments: argparse.Namespace) -> int:
    if arguments.workers is not None and arguments.workers < 1:
        raise ValueError(f"--workers {arguments.workers}: is no number of processes")
    files.check_given("--labels", arguments.labels)
    path = Path(os.path.abspath(arguments.path))
    if path.is_dir():
        if arguments.plot:
            raise ValueError(f"--plot needs one recording, and {arguments.path} is a folder")
        _folder(path, arguments)
    else:
        if arguments.labels or arguments.workers:
            raise ValueError("--labels and --workers have no effect on one recording")
        _recording(arguments)
    return 0


# --- a folder ---


def _folder(raw: Path, arguments: argparse.Namespace) -> None:
    found = archive.find(raw, (), arguments.labels)
    if not found.recordings and not found.strays:
        kinds = ", ".join(sorted(formats.SUFFIXES))
        raise ValueError(f"{raw}: no recordings there: no WFDB header (.hea), and none of {kinds}")
    formats.check_installed(found.recordings)
    secret = privacy.known_secret(raw) or secrets.token_bytes(32)
    looks = _looks(found, secret, hints.of_flags(arguments), arguments.workers, quiet=arguments.json)
    labels = Labels()
    if arguments.labels:
        own = [look.path for look in looks if look.cohort == OWN.name]
        labels = own_labels.read(arguments.labels, own, secret)
        known = {name: labelled.classes or 0 for name, labelled in labels.of.items()}
        looks = [look._replace(classes=known.get(look.name, look.classes)) for look in looks]
    described = _described(found, looks, labels)
    if arguments.json:
        say(json.dumps(described | {"findings": [_as_json(finding) for finding in findings.findings(looks)]}, indent=1))
    else:
        _print(raw, described, findings.findings(looks), found)


def _looks(found: Archive, secret: bytes, told: Hints, workers: int | None, quiet: bool) -> list[Look]:
    paths = found.recordings
    tasks = [looking.Task(found.root, secret, told, paths[i : i + _PER_TASK]) for i in range(0, len(paths), _PER_TASK)]
    by_task: dict[int, list[Look]] = {}
    with pool.opened(min(workers or os.cpu_count() or 1, max(1, len(tasks))), None, ("data_tools.look",)) as run:
        done = run(looking.run, tasks)
        for index, looks in done if quiet else progress(done, len(tasks), "inspecting"):
            by_task[index] = looks
    looks = [look for index in range(len(tasks)) for look in by_task[index]]
    named = {name for look in looks for name in look.other_names}
    looks = [look for look in looks if look.path not in named]  # parts of other recordings, and their signal files
    others = ((found.strays, "no header goes with this file"), (found.links, "a link to a folder outside"))
    for paths, reason in others:
        for path in paths:
            if path not in named:
                cohort = archive.cohort_of(found.root, path).name
                looks.append(Look(path, check.public_name(found.root, secret, path), cohort, refused=reason))
    return looks


def _described(found: Archive, looks: Sequence[Look], labels: Labels) -> dict[str, Any]:
    by_cohort: dict[str, list[Look]] = {}
    for look in looks:
        by_cohort.setdefault(look.cohort, []).append(look)
    described: dict[str, Any] = {
        "recordings": len(looks),
        "refused": sum(look.refused is not None for look in looks),
        "cohorts": {name: findings.of_cohort(by_cohort[name]) for name in cohorts.NAMES if name in by_cohort},
    }
    if labels.of:
        described["labels"] = {"recordings": len(labels.of), "none_of_ours": sum(labels.unknown.values())}
        described["patients"] = _patients([labelled.patient for labelled in labels.of.values() if labelled.patient])
    elif len(found.ptbxl_tables) == 1:
        table = cohorts.read_ptbxl_table(Path(found.root) / found.ptbxl_tables[0])
        names = {look.name for look in by_cohort.get(cohorts.PTBXL, []) if look.refused is None}
        described["patients"] = _patients([table[name].patient for name in sorted(names) if name in table])
        described["patients"]["unknown"] = len(names - set(table))
    return described


def _patients(of_recordings: list[str]) -> dict[str, int]:
    names = set(of_recordings)
    repeated = sum(of_recordings.count(name) > 1 for name in names) if len(names) < len(of_recordings) else 0
    return {"patients": len(names), "with_several_recordings": repeated}


def _as_json(finding: Finding) -> dict[str, Any]:
    names = [look.name for look in finding.recordings]
    return {"what": finding.what, "count": len(names), "advice": finding.advice, "recordings": names}


def _print(raw: Path, described: dict[str, Any], found: Sequence[Finding], contents: Archive) -> None:
    refused = described["refused"]
    say(f"{raw}: {described['recordings']:,} recordings, {refused:,} of them cannot be read")
    for name, facts in described["cohorts"].items():
        say(f"{name}: {facts['recordings']:,} recordings, {facts['hours']:g} h")
        if facts["recordings"] == facts["refused"]:
            continue
        say(f"  Hz {_counts(facts['rates'])}; s {_range(facts['seconds'])}; leads {_counts(facts['leads'])}")
        say(f"  unit {_counts(facts['units'])}; gain {_counts(facts['gains'])}; peak mV {_range(facts['peak_mv'])}")
        say(f"  age {_range(facts['age'])}; sex {_counts(facts['sex'])}")
        of = facts["recordings"] - facts["refused"]
        say(f"  {facts['with_a_class']:,} of {of:,} with a scored class: {_counts(facts['classes'], 26)}")
        if facts["codes_without_a_class"]:
            say(f"  codes that are no scored class: {_counts(facts['codes_without_a_class'])}")
    if "labels" in described:
        labels = described["labels"]
        say(
            f"labels: {labels['recordings']:,} recordings, {labels['none_of_ours']:,} labels are none of the 26 classes"
        )
    if "patients" in described:
        say(f"patients: {_counts(described['patients'])}")
    if contents.tables:
        say(f"{len(contents.tables):,} CSV files hold no samples, such as {shown(contents.tables[0])}")
    say("findings:" if found else "nothing is wrong with them")
    for finding in found:
        examples = ", ".join(shown(look.path) for look in finding.recordings[:3])
        say(f"  {len(finding.recordings):,} x {finding.what}")
        say(f"      {finding.advice}")
        say(f"      {examples}{', ...' if len(finding.recordings) > 3 else ''}")


def _counts(histogram: dict[str, int], most: int = 8) -> str:
    shown_ = [f"{name} ({count:,})" for name, count in list(histogram.items())[:most]]
    return ", ".join([*shown_, *(["..."] if len(histogram) > most else [])]) or "-"


def _range(spread: dict[str, float] | None) -> str:
    """Least, median, most."""
    if spread is None:
        return "unknown"
    return f"{spread['least']:.4g} to {spread['most']:.4g}, median {spread['median']:.4g}"


# --- one recording ---


def _recording(arguments: argparse.Namespace) -> None:
    path = arguments.path
    task, name = looking.of_file(path, hints.of_flags(arguments))
    look, recording = looking.at(task, name)
    if recording is None:
        raise ValueError(f"{path}: {look.refused}{f': {look.detail}' if look.detail else ''}")
    if arguments.plot:
        from data_tools import sheet  # matplotlib: half a second

        title = look.name if look.cohort != OWN.name else ""  # a sheet may be passed on
        sheet.save(recording.signal, recording.leads, arguments.plot, title)
    found = findings.findings([look])
    if arguments.json:
        say(json.dumps(_facts(look) | {"findings": [[finding.what, finding.advice] for finding in found]}, indent=1))
        return
    facts = _facts(look)
    say(f"{path}: {facts['cohort']}, {look.seconds:g} s at {look.rate:g} Hz, unit {', '.join(look.units)}")
    if look.gains:
        say(f"  gain {', '.join(f'{gain:g}' for gain in look.gains)}")
    say(f"  classes: {', '.join(facts['classes']) or 'none'}; age {look.age or 'unknown'}; sex {look.sex or 'unknown'}")
    for lead, about in facts["leads"].items():
        flat = ", flat" if about["flat"] else ""
        say(f"  {lead:4} peak {about['peak_mv']:7.3f} mV, {about['invalid']:,} invalid samples{flat}")
    if look.aside:
        say(f"  no leads, left aside: {', '.join(map(shown, look.aside))}")
    for finding in found:
        say(f"  finding: {finding.what}; {finding.advice}")
    if arguments.plot:
        say(f"{arguments.plot}: drawn")


def _facts(look: Look) -> dict[str, Any]:
    return {
        "name": look.name,
        "cohort": look.cohort,
        "rate": look.rate,
        "seconds": look.seconds,
        "samples": round(look.seconds * RATE),
        "units": list(look.units),
        "gains": list(look.gains),
        "classes": class_names(look.classes),
        "codes_without_a_class": list(look.other_codes),
        "age": look.age,
        "sex": look.sex,
        "leads": {
            lead: {"peak_mv": look.peaks[i], "invalid": look.invalid[i], "flat": bool(look.flat >> i & 1)}
            for i, lead in enumerate(LEADS)
            if look.leads >> i & 1
        },
    }


if __name__ == "__main__":
    sys.exit(main())
