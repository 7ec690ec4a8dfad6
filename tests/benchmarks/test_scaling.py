"""The model of scaling against closed forms, its fit against times that it made itself, and what ranks really send."""

from dataclasses import replace

import pytest

from benchmarks.scaling import breaks, fit, page
from benchmarks.scaling.machines import H200_NODES
from benchmarks.scaling.model import (
    Given,
    Parameters,
    Split,
    Work,
    checkpoint_seconds,
    collective_seconds,
    efficiency,
    gradient_traffic,
    later_from,
    pool_traffic,
    predict,
    reading_seconds,
    scaled_batch,
    sent,
    split,
    update,
)
from benchmarks.scaling.ranks import Cell, measure
from engine.config.pretraining import PretrainConfig, PretrainTrainConfig
from engine.model.sizes import SIZES

WORK = Work(parameters=1_000_000, dim=100, codes=10)


def given(**values: float) -> Parameters:
    """Round numbers; all that is not said costs nothing."""
    free = {
        "segment_seconds": 1e-3,
        "micro_step_seconds": 0.0,
        "launch_seconds": 0.0,
        "update_seconds": 0.0,
        "parameter_seconds": 0.0,
        "node_size": 8,
        "node_bandwidth": 1e9,
        "node_latency": 0.0,
        "network_bandwidth": 1e8,
        "network_latency": 0.0,
        "pair_seconds": 0.0,
        "memory_bytes": 1e9,
        "cache_bytes": 1e12,
        "disk_bandwidth": 1e9,
        "store_bandwidth": 1e8,
        "store_total": 4e8,
        "host_bandwidth": 1e9,
        "most_pairs": 512,
        "crops_per_recording": 1.0,
        "crop_bytes": 1e5,
        "shard_seconds": 1e-3,
    }
    return Parameters(**{name: Given(value, "a test") for name, value in (free | values).items()})


@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 32, 512])
@pytest.mark.parametrize("most", [1, 4, 64, 512])
@pytest.mark.parametrize("pools", [1, 2, 64])
def test_splits_are_those_that_the_engine_allows(ranks: int, most: int, pools: int) -> None:
    batch = 512 * pools
    allowed = PretrainConfig(train=PretrainTrainConfig(batch=batch)).micro_batches(ranks)
    fitting = [micro for micro in allowed if micro <= most]
    if not fitting:
        with pytest.raises(ValueError, match="no micro-batch"):
            split(replace(WORK, batch=batch), ranks, most)
        return
    of = split(replace(WORK, batch=batch), ranks, most)
    assert of.micro_batch == fitting[-1]
    assert of.micro_batch * of.micro_steps * ranks == batch
    assert of.micro_batch * of.pool_ranks == 512


def test_too_many_ranks() -> None:
    with pytest.raises(ValueError, match="1024 ranks"):
        split(WORK, 1024, 512)


def test_what_a_ring_sends() -> None:
    assert [sent("all-reduce", 100.0, ranks) for ranks in (1, 2, 4)] == [0, 100, 150]
    assert [sent("all-gather", 100.0, ranks) for ranks in (1, 2, 4)] == [0, 50, 75]
    for ranks in (2, 3, 64):  # an all-reduce is the one and then the other
        assert sent("all-reduce", 7.0, ranks) == sent("reduce-scatter", 7.0, ranks) + sent("all-gather", 7.0, ranks)


def test_seconds_of_a_collective() -> None:
    p = given(node_latency=1e-3, network_latency=1e-2)
    assert collective_seconds(p, "all-reduce", 1e9, 1) == 0
    assert collective_seconds(p, "all-gather", 1e9, 2) == pytest.approx(1e-3 + 0.5)
    assert collective_seconds(p, "all-reduce", 1e9, 8) == pytest.approx(2 * 3e-3 + 2 * 7 / 8)
    # Over nodes, a node's eight links of 1e8 carry what one rank's 1e9 carried.
    assert collective_seconds(p, "all-reduce", 1e9, 16) == pytest.approx(2 * 4e-2 + 2 * 15 / 16 / 0.8)
    fast = given(network_bandwidth=1e12)  # then the ring inside the nodes is the slowest part of the way
    assert collective_seconds(fast, "all-gather", 1e9, 64) == pytest.approx(63 / 64)


@pytest.mark.parametrize(
    ("stage", "micro_steps", "each"),
    # Bytes a parameter, of an endless ring: 2 passes of float32; 2 + 1 passes of bfloat16; and so on.
    [(0, 3, 8), (1, 1, 6), (1, 3, 6), (2, 1, 6), (2, 3, 14), (3, 1, 4), (3, 3, 12)],
)
def test_gradient_bytes(stage: int, micro_steps: int, each: int) -> None:
    traffic = gradient_traffic(replace(WORK, stage=stage), micro_steps)
    assert sum(sent(name, size, 10**9) for name, size in traffic) == pytest.approx(each * WORK.parameters)


def test_pool_bytes() -> None:
    assert pool_traffic(WORK, Split(512, 1, 1)) == []
    traffic = pool_traffic(WORK, Split(256, 1, 2))
    gathered = sum(size for name, size in traffic if name == "all-gather")
    scattered = sum(size for name, size in traffic if name == "reduce-scatter")
    rows, codes, identities = 1024 * 100 * 4, 2 * 10 * 4, 1024 * 8
    assert (gathered, scattered) == (rows + identities + 2 * codes, rows + codes)


def test_an_update_of_one_rank() -> None:
    p = given(micro_step_seconds=0.5, update_seconds=2.0, parameter_seconds=1e-6, most_pairs=512)
    of = update(p, WORK, 1)
    assert (of.segments, of.launches, of.optimizer, of.gradients, of.pool) == pytest.approx((1.024, 0.5, 3.0, 0, 0))
    assert of.seconds == of.busy == pytest.approx(4.524)
    assert efficiency(p, WORK, 1) == pytest.approx(1)


def test_launches_hide_behind_work() -> None:
    p = given(launch_seconds=0.1)
    assert update(p, WORK, 1).launches == 0  # 1.024 s of work
    small = update(p, WORK, 256)  # 4 segments
    assert small.segments + small.launches == pytest.approx(0.1)


def test_reading_counts_where_it_is_longer() -> None:
    p = given()
    assert update(p, WORK, 1, reading=1.0).seconds == pytest.approx(1.024)
    slow = update(p, WORK, 1, reading=2.0)
    assert (slow.seconds, slow.limit) == (2.0, "reading")


def test_where_nothing_is_sent_or_waited_for_twice_the_ranks_are_twice_as_fast() -> None:
    p = given(node_bandwidth=1e30, network_bandwidth=1e30)
    for ranks in (2, 64, 512):
        assert efficiency(p, WORK, ranks) == pytest.approx(1)
        assert update(p, WORK, ranks).seconds == pytest.approx(1.024 / ranks)


def test_the_optimizer_is_shared_from_stage_1_on() -> None:
    p = given(parameter_seconds=1e-6)
    seconds = [update(p, replace(WORK, stage=stage), 4).optimizer for stage in range(4)]
    assert seconds == pytest.approx([1.0, 0.25, 0.25, 0.25])


def test_reading() -> None:
    p = given(pair_seconds=1e-3)
    # 51.2 MB an update: whole, on every node; from memory only what is a rank's own.
    assert reading_seconds(p, WORK, 8, "store") == pytest.approx(0.512)
    assert reading_seconds(p, WORK, 16, "store") == pytest.approx(0.512)
    assert reading_seconds(p, WORK, 64, "store") == pytest.approx(1.024)  # eight nodes share 4e8
    assert reading_seconds(p, WORK, 8, "disk") == pytest.approx(0.064)  # the loader, 64 pairs a rank
    assert reading_seconds(p, WORK, 512, "disk") == pytest.approx(0.0512)
    assert reading_seconds(p, WORK, 512, "memory") == pytest.approx(0.001)
    assert [later_from(p, size) for size in (1e9, 2e9, 1e12, 2e12)] == ["memory", "disk", "disk", "store"]


def test_a_run() -> None:
    p, work = given(pair_seconds=0.0), replace(WORK, epochs=10)
    found = predict(p, work, 1, 512 * 100)
    assert found.dataset_bytes == 512 * 100 * 1e5 == found.fetched_bytes
    assert found.later_from == "disk"
    assert found.first_hours * 3600 == pytest.approx(100 * 1.024)
    assert found.run_hours * 3600 == pytest.approx(10 * 100 * 1.024)
    assert found.segments_per_second == pytest.approx(1000)
    small_cache = replace(p, cache_bytes=Given(1e9, "a test"))
    again = predict(small_cache, work, 16, 512 * 100)
    assert again.fetched_bytes == 2 * 10 * 512 * 100 * 1e5  # two nodes, every epoch
    assert again.run_hours == pytest.approx(10 * again.first_hours)


def test_checkpoints() -> None:
    assert checkpoint_seconds(given(), WORK, 1) == pytest.approx(12e6 / 1e9)
    assert checkpoint_seconds(given(), WORK, 2) == pytest.approx(6e6 / 1e9 + 12e6 / 1e9)


def test_scaled_batches_are_whole_pools() -> None:
    assert [scaled_batch(WORK, gpus).batch for gpus in (1, 8, 9, 64, 512)] == [512, 512, 512, 4096, 32768]
    assert split(scaled_batch(WORK, 512), 512, 512).pool_ranks == 8


def test_the_fit_finds_what_made_the_times() -> None:
    counts = {name: fit.work_of(name).parameters for name in ("tiny", "small")}
    each, start = {"tiny": 2e-3, "small": 3e-2}, {"tiny": 1e-2, "small": 4e-2}
    cells = [Cell(size, m, k, 1) for size in counts for m, k in ((4, 1), (16, 1), (4, 4))]
    made = [
        cell.micro_steps * (start[cell.size] + 2 * cell.micro_batch * each[cell.size]) + 5e-9 * counts[cell.size]
        for cell in cells
    ]
    found = fit.device(list(zip(cells, made, strict=True)))
    assert found.segment_seconds == pytest.approx(each, rel=1e-6)
    assert found.micro_step_seconds == pytest.approx(start, rel=1e-6)
    assert found.parameter_seconds == pytest.approx(5e-9, rel=1e-6)
    here = fit.fitted(given(), "small", found, None)
    unseen = Cell("small", 8, 2, 1)
    assert fit.of_cell(here, unseen, 1).seconds == pytest.approx(2 * (0.04 + 0.48) + 5e-9 * counts["small"])


def test_a_size_that_was_not_measured_takes_the_rate_of_the_largest() -> None:
    found = fit.Device({"tiny": 1.0, "small": 2.0}, {"tiny": 0.0, "small": 0.0}, 0.0, 0.0)
    ratio = fit.training_flops(SIZES["base"]) / fit.training_flops(SIZES["small"])
    assert fit.fitted(given(), "base", found, None).segment_seconds.value == pytest.approx(2 * ratio)


@pytest.mark.parametrize("ranks", [2, 8])
def test_the_fit_of_a_link(ranks: int) -> None:
    p = given(node_latency=2e-4, node_bandwidth=3e8)
    made = [
        {"collective": name, "bytes": size, "seconds": [collective_seconds(p, name, size, ranks)]}
        for name in ("all-reduce", "all-gather")
        for size in (4096, 2**20, 2**26)
    ]
    found = fit.link(made, ranks)
    assert found.latency == pytest.approx(2e-4, rel=1e-6)
    assert found.bandwidth == pytest.approx(3e8, rel=1e-6)


def test_the_full_size_has_the_paper_s_parameters() -> None:
    assert fit.work_of("base").parameters == pytest.approx(90.9e6, rel=1e-3)


def test_where_half_is_left() -> None:
    p = given(update_seconds=0.008, node_bandwidth=1e30, network_bandwidth=1e30)
    # 1.024 + 0.008 alone; n ranks take 1.024 / n + 0.008: half the speed of n is left where n < 130.
    assert breaks.last_above(p, WORK, 0.5) == 128
    assert breaks.last_above(p, WORK, 0.99) == 2


def test_the_page_has_every_case_and_every_parameter() -> None:
    lines = page.predicted(H200_NODES, fit.work_of("base"))
    rows = [line.split(" | ") for line in lines if line.startswith("| 10^")]
    assert len(rows) == 4 * 4 + 4 * 3
    assert {(row[0], row[2]) for row in rows} == {(f"| 10^{n}", str(gpus)) for n in range(5, 9) for gpus in page.GPUS}
    for name, given_ in vars(H200_NODES).items():
        assert any(line.startswith(f"| {name} |") and given_.source in line for line in lines)


@pytest.mark.slow
def test_two_ranks_send_what_the_model_says() -> None:
    cells = [Cell("tiny", 2, 2, 1, stage) for stage in range(4)]
    for cell, found in zip(cells, measure(cells, 2, together=True)[0]["updates"], strict=True):
        check = {**cell._asdict(), "ranks": 2, "sent": found["sent"]}
        if cell.stage == 3:  # small parameters are not gathered at every micro-step
            assert 0.5 * page.modelled(check) < page.counted(check) < page.modelled(check)
        else:  # the norm, and padding to even parts, are all that the model leaves out
            assert page.counted(check) == pytest.approx(page.modelled(check), rel=1e-3)
