"""The 26 scored classes of the PhysioNet/CinC challenge 2021, in the order of its weights table."""

from collections import Counter
from functools import lru_cache
from typing import NamedTuple


class Class(NamedTuple):
    name: str
    codes: tuple[str, ...]  # SNOMED CT; two codes: a pair the challenge scores as one class


CLASSES = (
    Class("AF", ("164889003",)),
    Class("AFL", ("164890007",)),
    Class("BBB", ("6374002",)),
    Class("Brady", ("426627000",)),
    Class("CLBBB|LBBB", ("733534002", "164909002")),
    Class("CRBBB|RBBB", ("713427006", "59118001")),
    Class("IAVB", ("270492004",)),
    Class("IRBBB", ("713426002",)),
    Class("LAD", ("39732003",)),
    Class("LAnFB", ("445118002",)),
    Class("LPR", ("164947007",)),
    Class("LQRSV", ("251146004",)),
    Class("LQT", ("111975006",)),
    Class("NSIVCB", ("698252002",)),
    Class("NSR", ("426783006",)),
    Class("PAC|SVPB", ("284470004", "63593006")),
    Class("PR", ("10370003",)),
    Class("PRWP", ("365413008",)),
    Class("PVC|VPB", ("427172004", "17338001")),
    Class("QAb", ("164917005",)),
    Class("RAD", ("47665007",)),
    Class("SA", ("427393009",)),
    Class("SB", ("426177001",)),
    Class("STach", ("427084000",)),
    Class("TAb", ("164934002",)),
    Class("TInv", ("59931005",)),
)
NO_CODE = "not a code"
CLASS_NAMES = tuple(c.name for c in CLASSES)
_INDEX = {code: index for index, c in enumerate(CLASSES) for code in c.codes}


class Labels(NamedTuple):
    classes: int  # bit i: class i
    other: tuple[str, ...]  # codes that are no scored class
    repeated: int  # codes that stood there before


@lru_cache(4096)
def read_dx(text: str) -> Labels:
    """The `Dx` field of a header: SNOMED codes between commas, of which some are empty, repeated or not scored."""
    codes = Counter(code for code in (part.strip() for part in text.split(",")) if code)
    classes = 0
    for code in codes:
        if code in _INDEX:
            classes |= 1 << _INDEX[code]
    # What is no code at all may be anybody's free text: counted, never repeated.
    other = tuple(sorted(code if code.isdecimal() else NO_CODE for code in codes if code not in _INDEX))
    return Labels(classes, other, sum(codes.values()) - len(codes))


def class_names(classes: int) -> list[str]:
    return [name for index, name in enumerate(CLASS_NAMES) if classes >> index & 1]
