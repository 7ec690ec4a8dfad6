"""The parts of an update: on a trace made by hand, and on updates of the smallest model."""

from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import profile, step
from benchmarks.profile import LAYERS, LOSSES, part_flops, parts
from engine.learner import Learner
from engine.methods import SYSTEMS
from engine.model.flops import training_flops
from engine.model.sizes import SIZES, Sizes

TINY = Sizes(conv_dim=16, dim=32, layers=2, heads=2, feedforward=32, codes=12, contrast_dim=8, position_taps=16)
CPU = torch.device("cpu")


def event(cat: str, name: str, begin: float, end: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "ts": begin, "dur": end - begin, "tid": tid, "args": args}


def named(name: str, begin: float, end: float) -> dict[str, Any]:
    return event("user_annotation", f"part: {name}", begin, end)


def operation(name: str, begin: float, end: float, number: int, sequence: int | None = None, **more: Any) -> Any:
    args: dict[str, Any] = {"External id": number, "Fwd thread id": more.pop("fwd", 0)}
    if sequence is not None:
        args["Sequence number"] = sequence
    return event("cpu_op", name, begin, end, more.pop("tid", 1), **args)


# Microseconds. A forward with attention inside other inside the losses, its backward, a reduction, an optimizer.
BY_HAND = [
    named("update", 0, 100),
    named("data", 2, 10),
    named("quantizer, losses", 10, 40),
    named("other", 12, 35),
    named("attention", 15, 30),
    operation("aten::mul", 11, 12, 1, 7),
    operation("aten::linear", 16, 26, 2, 8),
    operation("aten::addmm", 17, 25, 3, 8),
    operation("aten::layer_norm", 31, 34, 4, 9),
    operation("autograd::engine::evaluate_function: Addmm", 45, 60, 5, 8, fwd=1),
    operation("aten::mm", 46, 59, 6),
    operation("autograd::engine::evaluate_function: AccumulateGrad", 60, 62, 7),
    named("optimizer", 70, 95),
    event("cpu_op", "c10d::allreduce_", 72, 80, **{"External id": 8}),
    operation("aten::add", 81, 83, 9),
]


def in_microseconds(seconds: dict[str, float]) -> dict[str, float]:
    return {name: pytest.approx(value * 1e6) for name, value in seconds.items()}


def test_of_the_processor() -> None:
    seconds, device = parts(BY_HAND)
    assert device == "cpu"
    assert in_microseconds(seconds) == {
        "data": 8,
        LOSSES: 1,
        "attention": 10,
        "other": 3,
        "attention, backward": 15,
        "backward, unattributed": 2,
        "communication": 8,
        "optimizer": 17,
        "host": 36,
    }
    assert sum(seconds.values()) == pytest.approx(100e-6)


def test_of_a_gpu() -> None:
    """Kernels run later than what launched them; work goes before communication and copies where they overlap."""
    kernels = [
        event("gpu_memcpy", "Memcpy HtoD", 5, 20, 7, **{"External id": 99}),  # DALI's
        event("kernel", "gemm", 18, 48, 7, **{"External id": 3}),
        event("kernel", "gemm", 60, 80, 7, **{"External id": 6}),
        event("kernel", "ncclDevKernel_AllReduce", 70, 90, 8, **{"External id": 8}),
        event("kernel", "adam", 98, 130, 7, **{"External id": 9}),  # goes on after the update
    ]
    seconds, device = parts([*BY_HAND, *kernels])
    assert device == "cuda"
    assert in_microseconds(seconds) == {
        "data": 3 + 13,  # waited for, then copied
        "attention": 30,
        "attention, backward": 20,
        "communication": 10,
        "optimizer": 2,
        "idle": 22,
    }


def test_a_backward_in_a_thread_of_its_own() -> None:
    elsewhere = [
        {**one, "tid": 2} if "evaluate_function" in one["name"] or one["name"] == "aten::mm" else one for one in BY_HAND
    ]
    kernel = event("kernel", "gemm", 60, 80, 7, **{"External id": 6})
    assert parts([*elsewhere, kernel])[0]["attention, backward"] == pytest.approx(20e-6)


def test_a_trace_of_something_else() -> None:
    with pytest.raises(ValueError, match="no ranges of whole updates"):
        parts([operation("aten::mul", 0, 1, 1)])


@pytest.mark.parametrize("system", ["w2v_cmsc_rlm", "cmsc"])
def test_every_part_of_an_update(system: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    learner, update = step._learner(TINY, system, CPU, False, 2)
    with profile.watched(learner):
        found = profile.profile(update, 2, tmp_path / "trace.json.gz", CPU)
    assert found.updates == 2 and found.device == "cpu"
    for name in (*LAYERS, LOSSES, "optimizer", "host", *(f"{part}, backward" for part in (*LAYERS, LOSSES))):
        assert found.seconds[name] > 0, name
    assert set(found.seconds) <= {*profile.PARTS, *profile.REST, "host"}
    whole = sum(found.seconds.values())
    assert found.seconds.get("backward, unattributed", 0) < 0.1 * whole
    table = profile.lines(found, TINY, 4, 1e12, SYSTEMS[system].local)
    assert table[-1].startswith(f"| whole update | {whole * 1e3:,.1f} | 100.0% |")


def test_nothing_is_left_on_the_model() -> None:
    learner = Learner(SYSTEMS["w2v_cmsc"], TINY)

    def hooks() -> int:
        return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in learner.modules())

    with profile.watched(learner):
        assert hooks() == 2 * (5 + 2 * len(learner.encoder.layers))
    assert hooks() == 0


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("local", [True, False])
def test_flops_of_the_parts_are_those_of_the_whole(size: str, local: bool) -> None:
    assert sum(part_flops(SIZES[size], local).values()) == pytest.approx(training_flops(SIZES[size], local=local))


def test_a_layer_s_flops() -> None:
    flops = part_flops(SIZES["base"])
    tokens, dim = 156, 768
    assert flops["attention"] == pytest.approx(12 * (2 * tokens * 4 * dim**2 + 4 * tokens**2 * dim))
    assert flops["feed-forward, backward"] == pytest.approx(2 * 12 * 2 * tokens * 2 * dim * 3072)
