from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.data.chance import Augmentation, Chance
from engine.data.dataset import Dataset, open_dataset
from engine.data.order import Order, Plan, evaluation, training
from engine.data.pipeline import Batch, Batches, reading_ahead

ALL_ON = Augmentation(mask_leads=0.5, powerline=0.5, emg=0.5, wander=0.5, shift=0.5)
SEED = 5
WINDOW = 3


@pytest.fixture(scope="module")
def pairs(dataset: Path) -> Dataset:
    return open_dataset([str(dataset)], "pretrain", pairs=True)


@pytest.fixture(scope="module")
def segments(dataset: Path) -> Dataset:
    return open_dataset([str(dataset)], "pretrain")


def plans(dataset: Dataset, position: int, batch: int, rank: int = 0, ranks: int = 1) -> Iterator[Plan]:
    return training(Order(dataset.counts, SEED, WINDOW), position, batch, rank, ranks)


def take(count: int, dataset: Dataset, of: Iterator[Plan], augmentation: Augmentation, **how: Any) -> list[Batch]:
    with Batches(dataset, of, augmentation, seed=SEED, **how) as batches:
        return list(islice(batches, count))


def same(ours: Batch, theirs: Batch) -> bool:
    """Bit for bit."""
    names = ("signal", "identity", "classes", "mask_starts", "mask_lots")
    return all(torch.equal(getattr(ours, name), getattr(theirs, name)) for name in names)


def part(batch: Batch, start: int, stop: int) -> Batch:
    tensors = {name: value[start:stop] for name, value in vars(batch).items() if isinstance(value, torch.Tensor)}
    return replace(batch, **tensors)


def test_plain_batches_are_the_stored_crops_in_mv(pairs: Dataset) -> None:
    for batch in take(4, pairs, plans(pairs, 0, 8), Augmentation()):
        rows = pairs.rows(batch.plan.sample)
        stored = np.stack(pairs.signals(rows))
        assert batch.signal.dtype == torch.float32 and batch.signal.shape == (8, 2, 2500, 12)
        assert np.abs(batch.signal.numpy() - stored * 0.001).max() < 1e-6
        assert (batch.identity.numpy() == rows.identity).all()
        bits = batch.classes.numpy().astype(np.uint32) @ (1 << np.arange(26, dtype=np.uint32))
        assert (bits == rows.classes).all() and batch.classes.shape == (8, 26)


@pytest.mark.parametrize("recipe", ["paper", "reference"])
def test_time_masks_are_those_of_the_positions(pairs: Dataset, recipe: str) -> None:
    (batch,) = take(1, pairs, plans(pairs, 40, 4), Augmentation(recipe=recipe))
    chance = Chance(SEED, np.arange(40, 44), 2)
    assert (batch.mask_starts.numpy() == chance.time_mask_starts(156, recipe)).all()
    if recipe == "reference":
        assert np.allclose(batch.mask_lots.numpy(), chance.time_mask_lots(), atol=1e-7)
    else:
        assert batch.mask_lots.shape == (4, 2, 0)


@pytest.mark.parametrize("prefetch", [1, 2, 5])
@pytest.mark.parametrize("augmentation", [Augmentation(mask_leads=0.5), ALL_ON], ids=["rlm", "all"])
def test_stop_at_any_update_and_continue(pairs: Dataset, augmentation: Augmentation, prefetch: int) -> None:
    """Bit for bit, noise included; the data is smaller than what is drawn, so epochs turn over."""
    straight = take(14, pairs, plans(pairs, 0, 8), augmentation, prefetch=2)
    assert len(pairs) < 14 * 8
    for stopped in (1, 6, 11):
        continued = take(14 - stopped, pairs, plans(pairs, 8 * stopped, 8), augmentation, prefetch=prefetch, threads=1)
        assert all(same(ours, theirs) for ours, theirs in zip(straight[stopped:], continued, strict=True))


@pytest.mark.parametrize("ranks", [2, 4])
def test_other_numbers_of_ranks_see_the_same(pairs: Dataset, ranks: int) -> None:
    straight = take(6, pairs, plans(pairs, 24, 8), ALL_ON)
    size = 8 // ranks
    for rank in range(ranks):
        of_rank = take(6, pairs, plans(pairs, 24, size, rank, ranks), ALL_ON)
        for whole, mine in zip(straight, of_rank, strict=True):
            assert same(part(whole, rank * size, (rank + 1) * size), mine)


def test_tar_and_zarr_give_the_same_batches(pairs: Dataset, zarr_dataset: Path) -> None:
    """Files differ in what they hold, so the order does; evaluation goes by it."""
    zarr = open_dataset([str(zarr_dataset)], "pretrain", pairs=True)
    of_tar = take(9, pairs, evaluation(len(pairs), 8), Augmentation())
    of_zarr = take(9, zarr, evaluation(len(zarr), 8), Augmentation())
    assert len(of_tar) == len(of_zarr) > 3

    def rows(batches: list[Batch]) -> set[bytes]:
        return {row.numpy().tobytes() for batch in batches for row in batch.signal[torch.from_numpy(batch.plan.valid)]}

    assert rows(of_tar) == rows(of_zarr) and len(rows(of_tar)) == len(pairs)


def test_evaluation_ends_after_each_sample_once(dataset: Path) -> None:
    opened = open_dataset([str(dataset)], "diagnosis-train")
    for ranks in (1, 2):
        seen = []
        for rank in range(ranks):
            batches = take(10**6, opened, evaluation(len(opened), 7, rank, ranks), Augmentation(), prefetch=3)
            assert all(batch.signal.shape == (7, 1, 2500, 12) for batch in batches)
            seen += [sample for batch in batches for sample in batch.plan.sample[batch.plan.valid].tolist()]
        assert sorted(seen) == list(range(len(opened)))


def test_views_of_one_segment(segments: Dataset) -> None:
    """SimCLR(RLM) and 3KG: the same segment, two views; their positives are those of one record."""
    (simclr,) = take(1, segments, plans(segments, 0, 8), Augmentation(mask_leads=0.5), views=2)
    stored = np.stack(segments.signals(segments.rows(simclr.plan.sample))) * np.float32(0.001)
    kept = Chance(SEED, simclr.plan.position, 2).kept_leads(0.5)
    assert np.abs(simclr.signal.numpy() - stored * kept[:, :, None, :]).max() < 1e-6
    (turned,) = take(1, segments, plans(segments, 0, 8), Augmentation(vectorcardiogram=True), views=2)
    assert turned.signal.shape == (8, 2, 2500, 12) and turned.mask_starts.shape == (8, 2, 10)
    matrix, start = Chance(SEED, turned.plan.position, 2).vectorcardiogram()
    expected = np.einsum("nvij,nktj->nvti", matrix, stored)
    hidden = (np.arange(2500)[:, None] - start[:, :, None, :]) % 2500 < 1250
    assert np.abs(turned.signal.numpy() - np.where(hidden, 0, expected)).max() < 1e-5


@pytest.mark.parametrize("leads", [("I",), ("I", "II"), ("I", "II", "V2"), ("V1", "aVL")])
def test_leads_that_are_not_asked_for_are_zero(pairs: Dataset, leads: tuple[str, ...]) -> None:
    names = ["I", "II", "III", "aVR", "aVL", "aVF", *(f"V{number}" for number in range(1, 7))]
    chosen = [names.index(lead) for lead in leads]
    for augmentation in (Augmentation(), ALL_ON):
        (all_leads,) = take(1, pairs, plans(pairs, 0, 8), augmentation)
        (few,) = take(1, pairs, plans(pairs, 0, 8), augmentation, leads=leads)
        others = [number for number in range(12) if number not in chosen]
        assert (few.signal[..., others] == 0).all()
        dependent = not {"I", "II"} <= set(leads) and augmentation.noisy()
        kept = [lead for lead in chosen if not (dependent and 2 <= lead < 6)]
        assert torch.equal(few.signal[..., kept], all_leads.signal[..., kept])


def test_float16(pairs: Dataset) -> None:
    (whole,) = take(1, pairs, plans(pairs, 0, 8), ALL_ON)
    (half,) = take(1, pairs, plans(pairs, 0, 8), ALL_ON, dtype=torch.float16)
    assert half.signal.dtype == torch.float16
    nearest = 2.0**-11 * whole.signal.abs() + 2.0**-25  # half of the last bit, normal or not
    assert ((half.signal.float() - whole.signal).abs() <= 1.001 * nearest).all()


def test_batches_that_were_given_out_do_not_change(pairs: Dataset) -> None:
    """They are DALI's own memory: it must not be used again while somebody holds it."""
    held, copies = [], []
    with Batches(pairs, plans(pairs, 0, 8), ALL_ON, seed=SEED, prefetch=3) as batches:
        for batch in islice(batches, 12):
            held.append(batch.signal)
            copies.append(batch.signal.clone())
    assert all(torch.equal(ours, copy) for ours, copy in zip(held, copies, strict=True))


def test_many_pipelines_come_and_go(pairs: Dataset) -> None:
    """Closed in the middle of their work, while DALI reads from mapped files."""
    expected = take(1, pairs, plans(pairs, 0, 8), ALL_ON)[0]
    for _ in range(15):
        batches = Batches(pairs, plans(pairs, 0, 8), ALL_ON, seed=SEED, prefetch=4)
        first = next(batches)
        batches.close()
        assert same(first, expected)


def test_closed_twice_and_asked_again(pairs: Dataset) -> None:
    with Batches(pairs, plans(pairs, 0, 8), ALL_ON, seed=SEED) as batches:
        next(batches)
        batches.close()
        batches.close()
        assert list(batches) == []


def test_what_cannot_be_made_is_said(pairs: Dataset) -> None:
    with pytest.raises(ValueError, match="there is no lead v1"):
        take(1, pairs, plans(pairs, 0, 8), ALL_ON, leads=("v1",))
    with pytest.raises(ValueError, match="views are of single segments"):
        take(1, pairs, plans(pairs, 0, 8), ALL_ON, views=2)
    with pytest.raises(ValueError, match="DALI makes no torch.bfloat16"):
        take(1, pairs, plans(pairs, 0, 8), ALL_ON, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match="there are no batches to make"):
        take(1, pairs, iter(()), ALL_ON)
    with pytest.raises(ValueError, match="3KG's views take no other augmentation"):
        Augmentation(vectorcardiogram=True, emg=0.5)


def test_an_error_while_reading_reaches_the_loop(pairs: Dataset) -> None:
    def broken() -> Iterator[Plan]:
        yield from islice(plans(pairs, 0, 8), 4)
        raise ValueError("the store is gone")

    with Batches(pairs, broken(), ALL_ON, seed=SEED) as batches, pytest.raises(ValueError, match="the store is gone"):
        for _ in batches:
            pass


def test_files_are_asked_for_a_window_ahead(pairs: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(pairs, "ahead", lambda files: asked.extend(files.tolist()))
    order = Order(pairs.counts, SEED, WINDOW)
    for plan in islice(reading_ahead(training(order, 20, 4), order, pairs), 30):
        files = set(pairs.rows(plan.sample).file.tolist())
        assert files <= set(asked)
        # And the whole next window, before it is needed.
        position = int(plan.position[-1])
        ahead = order.files_ahead(position)
        both = [*next(ahead).tolist(), *next(ahead).tolist()]
        assert asked[-len(both) :] == both
    windows = list(islice(order.files_ahead(20), 40))
    expected = [file for window in windows for file in window.tolist()]
    assert asked == expected[: len(asked)] and len(asked) < len(expected)


@pytest.mark.gpu
@pytest.mark.parametrize("augmentation", [Augmentation(mask_leads=0.5), ALL_ON, Augmentation(vectorcardiogram=True)])
def test_the_gpu_gives_what_the_cpu_gives(pairs: Dataset, segments: Dataset, augmentation: Augmentation) -> None:
    turned = augmentation.vectorcardiogram
    dataset, views = (segments, 2) if turned else (pairs, 1)
    of_cpu = take(6, dataset, plans(dataset, 0, 8), augmentation, views=views)
    of_gpu = take(6, dataset, plans(dataset, 0, 8), augmentation, views=views, device="cuda", prefetch=3)
    for ours, theirs in zip(of_cpu, of_gpu, strict=True):
        assert theirs.signal.is_cuda and (ours.signal - theirs.signal.cpu()).abs().max() < 1e-5
        assert torch.equal(ours.identity, theirs.identity.cpu()) and torch.equal(ours.classes, theirs.classes.cpu())
    again = take(6, dataset, plans(dataset, 0, 8), augmentation, views=views, device="cuda", prefetch=1)
    assert all(same(ours, theirs) for ours, theirs in zip(of_gpu, again, strict=True))
