"""From the facts of many recordings to what is worth knowing: counts, and findings with advice. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from data_tools.crops import LEADS, RATE
from data_tools.labels import class_names
from data_tools.look import Look, lead_names

HIGH = 10.0  # mV; no heart is seen with as much
LOW = 0.1  # mV
LIMB_ERROR = 0.1  # mV
_AGAIN = "fetch it again: python -m data_tools.download verifies what it fetches"
_REFUSED = "shard refuses it with this reason and goes on; mend it, or leave it out"
_OF_REASON = {
    "signal file is shorter": _AGAIN,
    "checksum does not hold": f"damaged since it was written; {_AGAIN}",
    "a file of the recording is missing": _AGAIN,
    "file is shorter": "cut off in a copy; copy it again",
    "holds a row with another number of values": "cut off in a copy? And decimal commas need another separator",
    "none of the twelve leads": "name the leads in the file (I, II, ... V6), with a unit of voltage",
    "its file does not say": "flags hold for all such files, a sidecar for those in its folder and below",
    "holds several arrays": "name the recording's array with --key",
    "leads are sampled at different rates": "bring the leads to one rate in the program that exports them",
    "a layout header": "it is read as part of the recording that it belongs to",
    "no header goes with this file": "fetch its header, or remove it",
    "a link to a folder outside": "name the folder itself, or copy it here",
}


class Finding(NamedTuple):
    what: str
    recordings: list[Look]
    advice: str


def findings(looks: Sequence[Look]) -> list[Finding]:
    """Most urgent first: what is refused, what may be wrong, what is good to know."""
    return [*_refusals(looks), *_oddities([look for look in looks if look.refused is None]), *_repetitions(looks)]


def _refusals(looks: Sequence[Look]) -> list[Finding]:
    by_reason: dict[str, list[Look]] = {}
    for look in looks:
        if look.refused is not None:
            by_reason.setdefault(look.refused, []).append(look)
    return [
        Finding(
            f"cannot be read: {reason}",
            found,
            next((advice for start, advice in _OF_REASON.items() if reason.startswith(start)), _REFUSED),
        )
        for reason, found in sorted(by_reason.items(), key=lambda item: -len(item[1]))
    ]


def _oddities(looks: Sequence[Look]) -> list[Finding]:
    def having(what: str, test: Callable[[Look], Any], advice: str) -> Iterable[Finding]:
        found = [look for look in looks if test(look)]
        if found:
            yield Finding(what, found, advice)

    flat = _counted(name for look in looks for name in lead_names(look.flat))
    invalid = _counted(LEADS[i] for look in looks for i, count in enumerate(look.invalid) if count)
    rates = _counted(f"{look.rate:g}" for look in looks if look.rate != RATE)
    wrong = _counted(f"{gain:g}" for look in looks if look.gain_corrected for gain in look.gains)
    return [
        *having("shorter than 5 s", lambda look: look.seconds < 5, "too short for a segment: shard refuses it"),
        *having(
            "no usable lead in any segment",
            lambda look: look.seconds >= 5 and not look.usable,
            "flat or invalid throughout: shard refuses it",
        ),
        *having(
            "values beyond +-32.767 mV",
            lambda look: look.beyond,
            "in uV, and read as mV? If so, give --unit uV, or mend the unit in the file; else they are invalid samples",
        ),
        *having(
            f"a peak beyond {HIGH:g} mV",
            lambda look: look.peak > HIGH,
            "artefacts, or a wrong unit or gain: look at one with --plot; they are kept as they are",
        ),
        *having(
            f"no lead reaches {LOW} mV",
            lambda look: 0 < look.peak < LOW,
            "a wrong unit or gain? Compare one with its source (--plot)",
        ),
        *having(
            "samples at the end of 16 bits",
            lambda look: look.at_the_rail,
            "the amplifier was at its limit; they are kept as they are",
        ),
        *having(
            f"lead II is not I + III (by more than {LIMB_ERROR} mV)",
            lambda look: (look.limb_error or 0) > LIMB_ERROR,
            "are the leads in the order that they are named in? If so, they were filtered differently",
        ),
        *having(f"flat leads: {flat}", lambda look: look.flat, "masked: a flat lead counts as one that is not there"),
        *having(
            f"invalid samples: {invalid}",
            lambda look: any(look.invalid),
            "the leads are masked in the segments where they stand",
        ),
        *having(
            f"wrong gains of old mirrors, read as 1000/mV: {wrong}",
            lambda look: look.gain_corrected,
            "nothing to do; `data_tools.download` has the archive with right ones",
        ),
        *having(f"not sampled at {RATE} Hz: {rates}", lambda look: look.rate != RATE, "give shard --resample"),
        *having(
            "its header names files of another name",
            lambda look: look.other_names,
            "nothing to do; tools that pair files by name would lose it",
        ),
        *having(
            "columns that are no leads",
            lambda look: look.aside,
            "left aside; `inspect` of the file alone names them",
        ),
        *having(
            "5 s and shorter than 10 s",
            lambda look: 5 <= look.seconds < 10,
            "one segment: of use for diagnosis and identification, not for pairs in pre-training",
        ),
        *having(
            "diagnosis codes that stand there twice",
            lambda look: look.repeated_codes,
            "nothing to do: each counts once",
        ),
    ]


def _repetitions(looks: Sequence[Look]) -> list[Finding]:
    by_content: dict[frozenset[bytes], list[Look]] = {}
    by_segment: dict[bytes, set[str]] = {}
    by_name: dict[str, list[Look]] = {}
    for look in looks:
        if look.refused is None:
            by_name.setdefault(look.name, []).append(look)
        if look.contents:
            by_content.setdefault(frozenset(look.contents), []).append(look)
        for content in set(look.contents):
            by_segment.setdefault(content, set()).add(look.path)
    twins = [look for found in by_content.values() if len(found) > 1 for look in found]
    twin_paths = {look.path for look in twins}
    shared = {path for paths in by_segment.values() if len(paths) > 1 for path in paths} - twin_paths
    namesakes = [look for found in by_name.values() if len(found) > 1 for look in found]
    found = [
        Finding("the same content as another recording", twins, "shard keeps one of each, a labelled one first"),
        Finding(
            "a segment that another recording has too",
            [look for look in looks if look.path in shared],
            "they are kept together in one split",
        ),
        Finding("the same name as another recording", namesakes, "shard keeps one of each, one at 500 Hz first"),
    ]
    return [finding for finding in found if finding.recordings]


def _counted(values: Iterable[str]) -> str:
    return ", ".join(f"{value} ({count:,})" for value, count in Counter(values).most_common())


def of_cohort(looks: Sequence[Look]) -> dict[str, Any]:
    """What there is of it, in numbers."""
    read = [look for look in looks if look.refused is None]
    seconds = sorted(look.seconds for look in read)
    peaks = sorted(look.peak for look in read)
    ages = sorted(look.age for look in read if look.age is not None)
    return {
        "recordings": len(looks),
        "refused": len(looks) - len(read),
        "hours": round(sum(seconds) / 3600, 2),
        "rates": _histogram(f"{look.rate:g}" for look in read),
        "seconds": _spread(seconds),
        "leads": _histogram(_leads(look.leads) for look in read),
        "units": _histogram(unit for look in read for unit in look.units),
        "gains": _histogram(f"{gain:g}" for look in read for gain in look.gains),
        "peak_mv": _spread(peaks),
        "with_a_class": sum(bool(look.classes) for look in read),
        "classes": _histogram(name for look in read for name in class_names(look.classes)),
        "codes_without_a_class": _histogram(code for look in read for code in look.other_codes),
        "age": _spread(ages),
        "sex": _histogram(look.sex or "unknown" for look in read),
    }


def _leads(mask: int) -> str:
    return "12" if mask == (1 << len(LEADS)) - 1 else " ".join(lead_names(mask))


def _histogram(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())


def _spread(ordered: Sequence[float]) -> dict[str, float] | None:
    """Least, median and most."""
    if not ordered:
        return None
    return {"least": ordered[0], "median": ordered[len(ordered) // 2], "most": ordered[-1]}
