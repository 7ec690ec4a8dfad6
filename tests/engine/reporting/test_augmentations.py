"""What is drawn is what the formulas of the augmentations say."""

from pathlib import Path

import numpy as np
import pytest

from engine.data.dataset import open_dataset
from engine.folders.runs import read
from engine.reporting.augmentations import Variant, variants
from engine.reporting.datasets import millivolts, ordinary
from tests.engine.reporting.conftest import pretraining

ROUNDING = 2e-6  # mV


@pytest.fixture(scope="module")
def drawn(hearts: Path, runs: list[Path]) -> dict[str, Variant]:
    dataset = open_dataset([str(hearts)], "pretrain-valid")
    return {one.title: one for one in variants(dataset, ordinary(dataset), read(runs[0], "run"))}


def test_the_original_is_what_is_stored(hearts: Path, drawn: dict[str, Variant]) -> None:
    dataset = open_dataset([str(hearts)], "pretrain-valid")
    stored, present = millivolts(dataset, np.array([ordinary(dataset)]))
    assert present.all()
    np.testing.assert_allclose(drawn["Original"].signal, stored[0], atol=ROUNDING)


def test_masked_leads_are_zero_and_the_others_untouched(drawn: dict[str, Variant]) -> None:
    masked, original = drawn["RLM"], drawn["Original"].signal
    assert masked.masked.sum() == 5
    assert not masked.signal[:, masked.masked].any()
    np.testing.assert_array_equal(masked.signal[:, ~masked.masked], original[:, ~masked.masked])
    assert not any(one.masked.any() for title, one in drawn.items() if title != "RLM")


def test_powerline_noise_is_fifty_hertz(drawn: dict[str, Variant]) -> None:
    noise = drawn["Powerline noise"].signal - drawn["Original"].signal
    spectrum = np.abs(np.fft.rfft(noise[:, 6]))  # V1
    assert spectrum.argmax() == 50 * 5  # cycles in five seconds
    assert spectrum[250] ** 2 / (spectrum**2).sum() > 0.999
    assert 0.05 < noise.max() <= 0.5
    np.testing.assert_allclose(noise[:, 7], noise[:, 6], atol=ROUNDING)


def test_a_shift_is_a_step_up_and_a_step_down(drawn: dict[str, Variant]) -> None:
    noise = drawn["Baseline shift"].signal - drawn["Original"].signal
    steps = np.flatnonzero(np.abs(np.diff(noise[:, 6])) > 100 * ROUNDING)
    assert len(steps) == 2
    assert 0.1 * 2500 < steps[1] - steps[0] < 0.35 * 2500


def test_wander_is_slow_and_emg_is_white(drawn: dict[str, Variant]) -> None:
    original = drawn["Original"].signal
    wander, emg = (drawn[title].signal - original for title in ("Baseline wander", "EMG noise"))
    assert np.abs(np.diff(wander, axis=0)).max() < 0.05
    assert np.abs(wander).max() > 0.1
    emg = emg[:, 6:]  # the others are recomputed from I and II
    following = (emg[1:] * emg[:-1]).mean(0) / emg.var(0)
    assert np.abs(following).max() < 5 / np.sqrt(2500)


def test_the_limb_leads_stay_consistent(drawn: dict[str, Variant]) -> None:
    for title in ("Powerline noise", "EMG noise", "Baseline shift", "Baseline wander"):
        one, two, three = drawn[title].signal[:, :3].T
        np.testing.assert_allclose(three, two - one, atol=2e-3, err_msg=title)


def test_it_says_what_the_run_uses(hearts: Path, drawn: dict[str, Variant], tmp_path: Path) -> None:
    assert {title: one.about.rpartition("; ")[2] for title, one in drawn.items() if title != "Original"} == {
        "RLM": "used",
        **dict.fromkeys(["Powerline noise", "EMG noise", "Baseline shift", "Baseline wander"], "not used"),
    }
    dataset = open_dataset([str(hearts)], "pretrain-valid")
    noisy = pretraining(tmp_path / "noisy", hearts, "augmentation.emg=0.2", file="w2v_cmsc")
    found = {one.title: one.about for one in variants(dataset, 0, read(noisy, "noisy"))}
    assert found["EMG noise"] == "white, of up to 0.2 mV, another in each lead; used"
    assert found["RLM"].endswith("not used")
    turned = pretraining(tmp_path / "turned", hearts, file="3kg")
    assert [one.title for one in variants(dataset, 0, read(turned, "turned"))][-1] == "3KG"
