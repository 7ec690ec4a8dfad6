from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_tools.crops import INVALID, LEADS, SEGMENT, cleaned, column_sums, cut, lead_masks, segments
from tests.recordings import noise

ALL = (1 << len(LEADS)) - 1


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (2499, []),
        (2500, [(0, 2500)]),
        (4999, [(0, 2500)]),
        (5000, [(0, 5000)]),
        (7499, [(0, 5000)]),
        (7500, [(0, 5000), (5000, 2500)]),
        (12_345, [(0, 5000), (5000, 5000)]),
    ],
)
def test_ten_second_crops_and_a_rest_of_five(samples: int, expected: list[tuple[int, int]]) -> None:
    assert [(crop.start, crop.samples) for crop in cut(noise(1, samples), ALL)] == expected


def test_a_lead_is_masked_in_the_segment_where_it_is_flat_or_invalid() -> None:
    signal = noise(1)
    signal[:SEGMENT, 3] = 17  # flat, though not at zero
    signal[SEGMENT + 5, 4] = INVALID
    signal[0, 5] = INVALID + 1  # the lowest valid value
    crop = cut(signal, ALL)[0]
    assert crop.lead_mask == (ALL & ~(1 << 3), ALL & ~(1 << 4))
    stored = cleaned(signal, crop.lead_mask)
    assert not stored[:SEGMENT, 3].any() and not stored[SEGMENT:, 4].any()
    untouched = np.ones_like(stored, bool)
    untouched[:SEGMENT, 3] = untouched[SEGMENT:, 4] = False
    assert (stored == signal)[untouched].all()
    assert signal[0, 3] == 17  # the recording itself is not changed


def test_absent_leads_are_masked() -> None:
    assert lead_masks(noise(1), 0b11) == [0b11, 0b11]


def test_a_lead_that_varies_in_one_sample_only_is_usable() -> None:
    signal = np.zeros((SEGMENT, len(LEADS)), np.int16)
    for lead in range(len(LEADS)):
        signal[lead * 200 + 7, lead] = 1
    assert lead_masks(signal, ALL) == [ALL]


def test_content_knows_what_is_stored_and_nothing_else() -> None:
    signal, other = noise(1), noise(1)
    other[:, 3] = np.where(np.arange(5000) % 2, 5, INVALID)  # unusable in both segments
    signal[:, 3] = 0
    assert cut(signal, ALL)[0].content == cut(other, ALL)[0].content
    other[4999, 0] += 1
    assert cut(signal, ALL)[0].content[0] == cut(other, ALL)[0].content[0]
    assert cut(signal, ALL)[0].content[1] != cut(other, ALL)[0].content[1]


@given(st.integers(0, 1000), st.integers(1, 15), st.integers(0, 2**32))
def test_column_sums_are_wfdb_checksums(samples: int, columns: int, seed: int) -> None:
    digital = np.random.default_rng(seed).integers(-32768, 32768, (samples, columns), np.int64).astype(np.int16)
    assert (column_sums(digital) == digital.astype(np.int64).sum(0) % 65536).all()


def test_segments_are_those_of_the_crops() -> None:
    signal = noise(1, 12_600)
    signal[SEGMENT : 2 * SEGMENT] = 17  # no usable lead
    signal[3 * SEGMENT + 5, 4] = INVALID
    found = segments(signal, ALL & ~1)
    assert found.start == [0, 2 * SEGMENT, 3 * SEGMENT, 4 * SEGMENT]
    crops = cut(signal, ALL & ~1)
    masks = [mask for crop in crops for mask in crop.lead_mask]
    assert found.lead_mask == [mask for mask in masks if mask] and len(masks) == 5
    contents = [content for crop in crops for content in crop.content]
    assert [sha256(segment.data).digest()[:16] for segment in found.signal] == contents[:1] + contents[2:]
    assert segments(signal[: SEGMENT - 1], ALL).start == []
