"""The graph, and 3KG's views, against a plain NumPy reading of the method in float64."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from nvidia.dali import Pipeline, fn

from engine.data.augment import coefficients, graph, vectorcardiogram_views
from engine.data.chance import Augmentation, Chance, gaussian_bank

N, VIEWS, T = 6, 2, 2500
PHYSIO4 = Augmentation(powerline=0.5, emg=0.5, wander=0.5, shift=0.5)
DEVICES = ["cpu", pytest.param("gpu", marks=pytest.mark.gpu)]


def crops(seed: int, segments: int = VIEWS) -> NDArray[np.int16]:
    return np.random.default_rng(seed).integers(-4000, 4000, (N, segments, T, 12), np.int16)


def reference(
    signal: NDArray[np.int16], chance: Chance, augmentation: Augmentation, present: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """METHOD A6, or part B 3, word by word."""
    x = np.broadcast_to(signal * 0.001, (N, VIEWS, T, 12)).copy()
    t = np.arange(T) / 500
    recipe = augmentation.recipe
    if augmentation.powerline:
        for at, values in _each(*chance.powerline(augmentation.powerline, recipe)):
            a, frequency, phase = values
            x[at] += a * np.cos(2 * np.pi * frequency * t + phase)[:, None]
    if augmentation.emg:
        amplitude, start = chance.emg(augmentation.emg)
        bank = gaussian_bank()
        for row in range(N):
            white = bank[start[row] : start[row] + VIEWS * T * 12].reshape(VIEWS, T, 12)
            x[row] += white * amplitude[row][:, None, :]
    if augmentation.wander:
        for at, values in _each(*chance.wander(augmentation.wander, recipe)):
            a, frequency, phase, factor = values
            waves = sum(a[k] * np.cos(2 * np.pi * frequency[k] * t + phase[k]) for k in range(3))
            x[at] += waves[:, None] * factor
    if augmentation.shift:
        for at, values in _each(*chance.shift(augmentation.shift, recipe)):
            level, start, stop = values
            x[at][int(start) : int(stop)] += level
    for row, view in np.ndindex(N, VIEWS):
        if augmentation.noisy() and present[row, view, :2].all():
            one, two = x[row, view, :, 0], x[row, view, :, 1]
            x[row, view, :, 2:6] = np.stack([two - one, -(one + two) / 2, one - two / 2, two - one / 2], -1)
    kept = present & chance.kept_leads(augmentation.mask_leads)
    return x * kept[:, :, None, :]


def _each(*values: NDArray) -> list[tuple[tuple[int, int], list[NDArray]]]:
    return [(at, [value[at] for value in values]) for at in np.ndindex(N, VIEWS)]


def run(
    signal: NDArray[np.int16], chance: Chance, augmentation: Augmentation, present: NDArray[np.bool_], device: str
) -> NDArray[np.float32]:
    given = coefficients(chance, augmentation, present)
    pipeline = Pipeline(batch_size=N, num_threads=2, device_id=0 if device == "gpu" else None, exec_dynamic=True)
    with pipeline:

        def constant(values: object) -> object:
            out = fn.external_source(source=lambda: values, batch=True)
            return out.gpu() if device == "gpu" else out

        white = None
        if augmentation.emg:
            bank = gaussian_bank()
            starts = chance.emg(augmentation.emg)[1]
            white = constant([bank[at : at + VIEWS * T * 12].reshape(VIEWS, T, 12) for at in starts])
        nodes = {name: constant(values) for name, values in given.items()}
        pipeline.set_outputs(graph(constant(list(signal)), nodes, white, device))
    pipeline.build()
    (out,) = pipeline.run()
    return np.stack([np.array(one) for one in (out.as_cpu() if device == "gpu" else out)])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("recipe", ["paper", "reference"])
@pytest.mark.parametrize(
    "augmentation",
    [
        Augmentation(),
        Augmentation(mask_leads=0.5),
        Augmentation(powerline=0.5),
        Augmentation(emg=0.5),
        Augmentation(wander=0.5),
        Augmentation(shift=0.5),
        replace(PHYSIO4, shift=0.0),
        PHYSIO4,
        replace(PHYSIO4, mask_leads=0.5),
    ],
    ids=lambda augmentation: "-".join(name for name, value in vars(augmentation).items() if value) or "plain",
)
def test_the_graph_equals_the_method(augmentation: Augmentation, recipe: str, device: str) -> None:
    augmentation = replace(augmentation, recipe=recipe)
    chance = Chance(3, np.arange(1000, 1000 + N), VIEWS)
    present = np.ones((N, VIEWS, 12), bool)
    present[1, :, 0] = False  # without I the others of the limb stay what they are
    present[2, 1, 4] = False
    present[3] = False
    signal = np.where(present[:, :, None, :], crops(0), 0).astype(np.int16)
    result = run(signal, chance, augmentation, present, device)
    expected = reference(signal, chance, augmentation, present)
    assert np.abs(result - expected).max() < 1e-5
    assert (result == 0)[~np.broadcast_to(present[:, :, None, :], result.shape)].all()


def test_two_views_of_one_segment() -> None:
    """SimCLR(RLM): the graph widens the one segment to both."""
    chance = Chance(3, np.arange(N), VIEWS)
    present = np.ones((N, VIEWS, 12), bool)
    signal = crops(1, segments=1)
    for augmentation in (Augmentation(mask_leads=0.5), replace(PHYSIO4, mask_leads=0.5)):
        result = run(signal, chance, augmentation, present, "cpu")
        assert result.shape == (N, VIEWS, T, 12)
        assert np.abs(result - reference(signal, chance, augmentation, present)).max() < 1e-5
        assert not np.array_equal(result[:, 0], result[:, 1])


def test_noise_keeps_the_laws_of_the_limb_leads() -> None:
    chance = Chance(5, np.arange(N), VIEWS)
    result = run(crops(2), chance, PHYSIO4, np.ones((N, VIEWS, 12), bool), "cpu")
    one, two = result[..., 0], result[..., 1]
    laws = [two - one, -(one + two) / 2, one - two / 2, two - one / 2]
    for lead, law in zip(range(2, 6), laws, strict=True):
        assert np.abs(result[..., lead] - law).max() < 1e-5


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_3kg(device: str) -> None:
    chance = Chance(7, np.arange(N), VIEWS)
    present = np.ones((N, VIEWS, 12), bool)
    present[4, :, 7] = False
    signal = crops(3, segments=1) * np.float32(0.001)
    views = vectorcardiogram_views(torch.from_numpy(signal).to(device), chance, present).cpu().numpy()
    matrix, start = chance.vectorcardiogram()
    for row, view in np.ndindex(N, VIEWS):
        expected = signal[row, 0].astype(np.float64) @ matrix[row, view].T
        for lead in range(12):
            hidden = (start[row, view, lead] + np.arange(1250)) % T  # a circular span of half the segment
            expected[hidden, lead] = 0
        expected[:, ~present[row, view]] = 0
        assert np.abs(views[row, view] - expected).max() < 1e-5
