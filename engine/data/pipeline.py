"""Batches of a dataset on the device: mapped crops in, augmented by one DALI graph, torch tensors out."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from nvidia.dali import Pipeline, fn, types
from torch.utils.dlpack import from_dlpack

from engine.data.augment import Coefficients, coefficients, graph, vectorcardiogram_views
from engine.data.chance import LEADS, SEGMENT, Augmentation, Chance, gaussian_bank
from engine.data.dataset import Dataset, Rows
from engine.data.order import Order, Plan

_TOKENS = SEGMENT // 16
_DALI_TYPES = {torch.float32: types.FLOAT, torch.float16: types.FLOAT16}


@dataclass(frozen=True)
class Batch:
    """Tensors on the device, but for `plan`."""

    signal: torch.Tensor  # mV [n, views, 2500, 12]
    identity: torch.Tensor  # int64 [n]
    classes: torch.Tensor  # float32 [n, classes]
    mask_starts: torch.Tensor  # int64 [n, views, 10]: where the spans of the time mask begin
    mask_lots: torch.Tensor  # float32 [n, views, 100]: by which recipe `reference` thins it; else [n, views, 0]
    plan: Plan  # which samples these are, and at which positions


@dataclass(frozen=True)
class _Fed:
    """A batch on its way through the graph, which reads from `signals` and `white` where they lie."""

    plan: Plan
    rows: Rows
    present: NDArray[np.bool_]  # [n, views, 12]: there, and to be seen
    chance: Chance
    signals: list[NDArray[np.int16]]  # each [segments, SEGMENT, 12]
    coefficients: Coefficients
    white: list[Any]  # each float32 [views, SEGMENT, 12] on the device


def reading_ahead(plans: Iterator[Plan], order: Order, dataset: Dataset) -> Iterator[Plan]:
    """The same plans; the files of a window are asked for while the one before it is read."""
    end = None
    for plan in plans:
        if end is None:
            windows = order.files_ahead(int(plan.position[0]))
            dataset.ahead(next(windows))
            end = int(plan.position[0])
        while plan.position[-1] >= end:
            dataset.ahead(next(windows))
            end = order.window_end(end)
        yield plan


class Batches:
    """An iterator over the batches of `plans`, all of one size, made ahead in the background.

    `views`: of one segment, where a sample of `dataset` is one. `leads`: those that the model may see.
    Close it, or use it in a with statement.
    """

    def __init__(
        self,
        dataset: Dataset,
        plans: Iterator[Plan],
        augmentation: Augmentation,
        *,
        seed: int,
        views: int = 1,
        leads: tuple[str, ...] = LEADS,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        threads: int = 2,
        prefetch: int = 2,
    ) -> None:
        if dataset.segments * views > 2:
            raise ValueError(f"{views} views of pairs are asked for; views are of single segments")
        if unknown := set(leads) - set(LEADS):
            raise ValueError(f"there is no lead {', '.join(sorted(unknown))}")
        if dtype not in _DALI_TYPES:
            raise ValueError(f"DALI makes no {dtype}; it makes {' and '.join(map(str, _DALI_TYPES))}")
        first = next(plans, None)
        if first is None:
            raise ValueError("there are no batches to make")
        self._dataset = dataset
        self._plans = chain([first], plans)
        self._augmentation = augmentation
        self._seed = seed
        self._views = dataset.segments * views
        self._visible = np.isin(LEADS, leads)
        self._device = torch.device(device)
        if self._device.type == "cuda" and self._device.index is None:
            self._device = torch.device("cuda", torch.cuda.current_device())
        self._bank = torch.from_numpy(gaussian_bank()).to(self._device) if augmentation.emg else None
        self._on_the_way: dict[int, _Fed] = {}
        self._given_out = 0
        self._closed = False
        self._graph = self._build(_DALI_TYPES[dtype], threads, prefetch)
        self._stream = torch.cuda.current_stream(self._device) if self._device.type == "cuda" else None
        self._worker = ThreadPoolExecutor(1, "batches")
        self._next = self._worker.submit(self._graph.run, self._stream)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if self._closed:
            raise StopIteration
        (out,) = self._next.result()  # raises StopIteration after the last one
        self._next = self._worker.submit(self._graph.run, self._stream)
        fed = self._on_the_way.pop(self._given_out)
        self._given_out += 1
        return self._finish(from_dlpack(out.as_tensor()), fed)

    def __enter__(self) -> "Batches":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._worker.shutdown(cancel_futures=True)
        del self._next, self._graph  # before what it may still be reading from
        self._on_the_way.clear()

    def _feed(self, number: int) -> _Fed:
        """The inputs of a batch, which DALI asks for by number."""
        if number not in self._on_the_way:
            plan = next(self._plans)
            rows = self._dataset.rows(plan.sample)
            # [n, 1 or 2, 12] -> [n, views, 12]
            present = np.repeat(rows.present, self._views // self._dataset.segments, 1) & self._visible
            chance = Chance(self._seed, plan.position, self._views)
            self._on_the_way[number] = _Fed(
                plan,
                rows,
                present,
                chance,
                self._dataset.signals(rows),
                coefficients(chance, self._augmentation, present),
                self._white(chance),
            )
        return self._on_the_way[number]

    def _white(self, chance: Chance) -> list[Any]:
        if self._bank is None:
            return []
        shape = (self._views, SEGMENT, len(LEADS))
        slices = [
            self._bank[start : start + self._views * SEGMENT * len(LEADS)].view(shape)
            for start in chance.emg(self._augmentation.emg)[1].tolist()
        ]
        return [one.numpy() for one in slices] if self._bank.device.type == "cpu" else slices

    def _build(self, dtype: types.DALIDataType, threads: int, prefetch: int) -> Pipeline:
        on_gpu = self._device.type == "cuda"
        device = "gpu" if on_gpu else "cpu"
        names = list(self._feed(0).coefficients)

        def source(ask: Callable[[int], Any], **how: Any) -> Any:
            # On the CPU, DALI reads from the mapped files and from the bank; for the GPU they go through pinned memory.
            return fn.external_source(source=ask, batch=True, no_copy=not on_gpu, **how)

        pipeline = Pipeline(
            batch_size=len(self._feed(0).plan.sample),
            num_threads=threads,
            device_id=self._device.index if on_gpu else None,
            prefetch_queue_depth=prefetch,
            exec_dynamic=True,
            seed=0,
        )
        with pipeline:
            inputs = source(lambda number: self._inputs(number, names), num_outputs=1 + len(names))
            signal, *given = (one.gpu() for one in inputs) if on_gpu else inputs
            white = None
            if self._bank is not None:
                white = source(lambda number: self._feed(number).white, device=device)
            out = graph(signal, dict(zip(names, given, strict=True)), white, device)
            pipeline.set_outputs(out if dtype == types.FLOAT else fn.cast(out, dtype=dtype))
        pipeline.build()
        return pipeline

    def _inputs(self, number: int, names: list[str]) -> tuple[Any, ...]:
        fed = self._feed(number)
        return (fed.signals, *(fed.coefficients[name] for name in names))

    def _finish(self, signal: torch.Tensor, fed: _Fed) -> Batch:
        if self._augmentation.vectorcardiogram:
            signal = vectorcardiogram_views(signal, fed.chance, fed.present)
        recipe = self._augmentation.recipe
        lots = fed.chance.time_mask_lots() if recipe == "reference" else np.empty((*fed.present.shape[:2], 0))
        classes = fed.rows.classes[:, None] >> np.arange(len(self._dataset.classes), dtype=np.uint32) & 1
        return Batch(
            signal,
            self._to_device(fed.rows.identity),
            self._to_device(classes.astype(np.float32)),
            self._to_device(fed.chance.time_mask_starts(_TOKENS, recipe)),
            self._to_device(lots.astype(np.float32)),
            fed.plan,
        )

    def _to_device(self, values: NDArray) -> torch.Tensor:
        tensor = torch.from_numpy(values)
        if self._device.type == "cuda":  # from other memory the host would wait for the copy
            tensor = tensor.pin_memory()
        return tensor.to(self._device, non_blocking=True)
