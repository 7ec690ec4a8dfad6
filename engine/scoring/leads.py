"""The lead sets of the paper's tables."""

from collections.abc import Sequence

from engine.data.chance import LEADS

LEAD_SETS: dict[int, tuple[str, ...]] = {
    12: LEADS,
    6: ("I", "II", "III", "aVR", "aVL", "aVF"),
    3: ("I", "II", "V2"),
    2: ("I", "II"),
    1: ("I",),
}


def name_of(leads: Sequence[str]) -> str:
    """`12`, `6`, `3`, `2`, `1` for the paper's sets, as its tables have them; else the leads: `I+V5`."""
    strange = [lead for lead in leads if lead not in LEADS]
    if strange or not leads or len(set(leads)) < len(leads):
        found = ", ".join(leads) or "none"
        raise ValueError(f"leads are some of {', '.join(LEADS)}, each at most once; found {found}")
    ordered = tuple(lead for lead in LEADS if lead in leads)
    return str(len(ordered)) if LEAD_SETS.get(len(ordered)) == ordered else "+".join(ordered)
