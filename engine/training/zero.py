"""DeepSpeed's settings from ours, and its sharded state as whole tensors by name."""

import io
import logging
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from typing import Any

import deepspeed
import torch
from deepspeed.utils import (
    safe_get_full_fp32_param,
    safe_get_full_optimizer_state,
    safe_set_full_fp32_param,
    safe_set_full_optimizer_state,
)
from torch import Tensor, nn

from engine.config.common import Config
from engine.settings import nearest

MOMENTS = ("exp_avg", "exp_avg_sq")
_OF_LOSS_SCALE = ("cur_scale", "cur_hysteresis", "cur_iter", "last_overflow_iter")
_OURS = {
    "train_batch_size": "train.batch",
    "train_micro_batch_size_per_gpu": "train.micro_batch",
    "gradient_accumulation_steps": "train.batch and train.micro_batch",
    "gradient_clipping": "train.clip",
    "optimizer": "train.lr, train.betas, train.eps and train.weight_decay",
    "scheduler": "train.lr, which is constant",
    **dict.fromkeys(("bf16", "bfloat16", "fp16", "amp", "torch_autocast", "data_types"), "train.precision"),
    **dict.fromkeys(("tensorboard", "wandb", "comet", "csv_monitor"), "log.to"),
    "steps_per_print": "run.log_every",
    "timers": "Leadwise, so that nothing waits for the device",
}
_OF_ZERO = {"stage": "train.zero_stage"} | dict.fromkeys(
    ("offload_optimizer", "offload_param", "cpu_offload", "cpu_offload_params"), "train.offload"
)
# What else DeepSpeed takes at its top level, where it says nothing about names it does not know.
_GROUPS = {"zero_optimization", "activation_checkpointing", "flops_profiler", "comms_logger", "aio", "checkpoint"}
_PASSED = _GROUPS | {
    *("communication_data_type", "prescale_gradients", "gradient_predivide_factor", "sparse_gradients"),
    *("disable_allgather", "wall_clock_breakdown", "memory_breakdown", "dump_state"),
}


def deepspeed_settings(config: Config, micro_batch: int, accumulation: int) -> dict[str, Any]:
    """Raises ValueError for what `deepspeed.*` may not hold."""
    _check(config.deepspeed)
    train = config.train
    zero: dict[str, Any] = {"stage": train.zero_stage}
    if train.offload == "cpu":
        zero["offload_optimizer"] = {"device": "cpu"}
    made: dict[str, Any] = {
        "train_micro_batch_size_per_gpu": micro_batch,
        "gradient_accumulation_steps": accumulation,
        "gradient_clipping": train.clip if train.zero_stage else 0.0,  # without ZeRO it forgets the norm
        "zero_optimization": zero,
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 10**9,  # telemetry speaks
        "timers": {"throughput": {"enabled": False, "synchronized": False}},  # it would wait for the device
    }
    if train.precision != "fp32":
        made[train.precision] = {"enabled": True}
        made["data_types"] = {"grad_accum_dtype": "fp32"}
    passed = {key: value for key, value in config.deepspeed.items() if key != "zero_optimization"}
    zero.update(config.deepspeed.get("zero_optimization", {}))
    return made | passed


def _check(passed: Mapping[str, Any]) -> None:
    """Misspelt settings of the top level are taken silently by DeepSpeed; nested ones it refuses itself."""
    for key in passed:
        if key in _OURS:
            raise ValueError(f"deepspeed.{key} is set by {_OURS[key]}")
        if key not in _PASSED:
            raise ValueError(f"deepspeed.{key}: there is no such setting{nearest(key, _PASSED, 'deepspeed')}")
        if key in _GROUPS and not isinstance(passed[key], dict):
            raise ValueError(f"deepspeed.{key} should be settings")
    for key in passed.get("zero_optimization", {}):
        if key in _OF_ZERO:
            raise ValueError(f"deepspeed.zero_optimization.{key} is set by {_OF_ZERO[key]}")


class Zero:
    """A module under DeepSpeed, trained with torch's AdamW."""

    def __init__(self, config: Config, module: nn.Module, micro_batch: int, accumulation: int) -> None:
        settings = deepspeed_settings(config, micro_batch, accumulation)
        logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
        train = config.train
        self._named = {name: p for name, p in module.named_parameters() if p.requires_grad}
        self._frozen = {name: p for name, p in module.named_parameters() if not p.requires_grad}
        # DeepSpeed keeps masters in full precision of what is trained, and of nothing else.
        self._masters_of_frozen = {name: p.detach().to("cpu", copy=True) for name, p in self._frozen.items()}
        self._stage = train.zero_stage
        self._adamw = torch.optim.AdamW(
            self._named.values(),
            lr=train.lr,
            betas=(train.betas[0], train.betas[1]),
            eps=train.eps,
            weight_decay=train.weight_decay,
            fused=True,
        )
        self._clip = train.clip
        if not self._stage:
            self._adamw.register_step_pre_hook(self._clip_or_skip)
        try:
            with redirect_stdout(io.StringIO()):  # it prints pages about memory, asked or not
                self.engine, self._optimizer, *_ = deepspeed.initialize(
                    model=module, optimizer=self._adamw, config=settings
                )
        except (ValueError, AssertionError, TypeError) as failure:  # pydantic's are ValueErrors
            raise ValueError(f"DeepSpeed refuses these settings: {' '.join(str(failure).split())}") from failure
        self._norm: Tensor | None = None
        self._make_state()

    def micro_step(self, *inputs: Any) -> Any:
        """Forward and backward; the last one of an update also applies it."""
        losses = self.engine(*inputs)
        self.engine.backward(losses.total)
        self.engine.step()
        return losses

    def set_learning_rate(self, lr: float) -> None:
        for group in self._adamw.param_groups:
            group["lr"] = lr

    def gradient_norm(self) -> float:
        """Of the last update; not finite: it was skipped, on all ranks."""
        of_deepspeed = self.engine.get_global_grad_norm()  # before clipping
        norm = self._norm if of_deepspeed is None else of_deepspeed
        assert norm is not None
        return float(norm)

    def loss_scale(self) -> dict[str, Any]:
        """That of fp16, which overflows lower, and what it goes by; of other precisions nothing."""
        scaler = getattr(self._optimizer, "loss_scaler", None)
        return {name: getattr(scaler, name) for name in _OF_LOSS_SCALE if getattr(scaler, "dynamic", False)}

    def set_loss_scale(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            setattr(self._optimizer.loss_scaler, name, value)

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """Whole and in float32, by name. All ranks together, as all that follows."""
        for name, parameter in self._named.items():
            yield name, safe_get_full_fp32_param(parameter) if self._stage else parameter.detach()
        yield from self._masters_of_frozen.items()

    def moments(self, which: str) -> Iterator[tuple[str, Tensor]]:
        for name, parameter in self._named.items():
            if self._stage:
                yield name, safe_get_full_optimizer_state(parameter, which)
            else:
                yield name, self._adamw.state[parameter][which]

    @torch.no_grad()
    def set_moments(self, moments: Mapping[str, Mapping[str, Tensor]], updates: int) -> None:
        """`updates`: how many made them."""
        for shard in self._shards():
            self._adamw.state[shard]["step"].fill_(updates)
        for which in MOMENTS:
            for name, parameter in self._named.items():
                if self._stage:
                    safe_set_full_optimizer_state(parameter, moments[which][name], which)
                else:
                    self._adamw.state[parameter][which].copy_(moments[which][name])

    @torch.no_grad()
    def set_weights(self, weights: Mapping[str, Tensor]) -> None:
        if self._stage:
            for name, parameter in self._named.items():
                safe_set_full_fp32_param(parameter, weights[name])
        self._masters_of_frozen = {name: weights[name].to("cpu", copy=True) for name in self._frozen}
        # What the module computes with, which may be of low precision, and sharded itself.
        everything = self._named | self._frozen
        with deepspeed.zero.GatheredParameters(list(everything.values()), modifier_rank=0, enabled=self._stage == 3):
            for name, parameter in everything.items():
                parameter.copy_(weights[name])

    def _make_state(self) -> None:
        """AdamW would make it in its first update, and DeepSpeed could not read or write it before."""
        for shard in self._shards():
            state = self._adamw.state[shard]
            state["step"] = torch.zeros((), device=shard.device)
            state |= {which: torch.zeros_like(shard) for which in MOMENTS}
        if hasattr(self._optimizer, "_lazy_init_hp_params_optimizer_state"):
            self._optimizer._lazy_init_hp_params_optimizer_state()

    def _shards(self) -> list[Tensor]:
        """What AdamW updates on this rank."""
        if self._stage == 3:  # which shows them to AdamW only while it updates
            return list(self._optimizer.fp32_partitioned_groups_flat)
        return [shard for group in self._adamw.param_groups for shard in group["params"]]

    def _clip_or_skip(self, *_: Any) -> None:
        """ZeRO-0 in float32 is the one mode that DeepSpeed does not check. AdamW itself skips where found_inf is 1, and
        divides by grad_scale."""
        self._norm = torch.nn.utils.get_total_norm([p.grad for p in self._named.values() if p.grad is not None])
        self._adamw.found_inf = (~self._norm.isfinite()).float()  # type: ignore[attr-defined]
        scale = (self._norm / self._clip).clamp(min=1.0) if self._clip else torch.ones_like(self._norm)
        self._adamw.grad_scale = scale  # type: ignore[attr-defined]
