"""The same work in this process, in several, or on a Dask cluster."""

import importlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, connection, get_context, parent_process
from typing import Any

# (function, tasks) -> (index of a task, its result), as they are ready. Both are pickled.
Run = Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[tuple[int, Any]]]


@contextmanager
def opened(workers: int, cluster: str | None, modules: Sequence[str] = ()) -> Iterator[Run]:
    """Processes of this machine import `modules` at once, while the caller has yet to find work for them."""
    if cluster is not None:
        with _cluster(cluster) as run:
            yield run
    elif workers == 1:
        yield lambda function, tasks: ((index, function(task)) for index, task in enumerate(tasks))
    else:
        with _processes(workers, modules) as run:
            yield run


@contextmanager
def _processes(workers: int, modules: Sequence[str]) -> Iterator[Run]:
    # Spawned, not forked: nothing of the parent (its lock on the folder least of all) lives on in a worker.
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_end_with_parent)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited: Ctrl-C is the parent's to answer
    for _ in range(workers):
        pool.submit(_prepare, modules)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def run(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        futures = {pool.submit(function, task): index for index, task in enumerate(tasks)}
        for future in as_completed(futures):
            yield futures[future], future.result()

    try:
        yield run
    except BrokenProcessPool:
        raise OSError("a worker was killed (out of memory?); give the same command again") from None
    except BaseException:
        for worker in active_children():  # nobody waits for what they are at, and nothing is lost by it
            worker.kill()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _prepare(modules: Sequence[str]) -> None:
    for module in modules:
        importlib.import_module(module)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _cluster(address: str) -> Iterator[Run]:
    """Its workers see the archive and the dataset under the same paths as this process does."""
    try:
        import distributed
    except ImportError:
        raise ValueError("--cluster needs Dask: pip install 'leadwise[cluster]'") from None
    try:
        client = distributed.Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise ValueError(f"--cluster {address}: no Dask scheduler answers there ({error})") from None

    def run(function: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        futures = client.map(function, tasks, pure=False)
        places = {future.key: index for index, future in enumerate(futures)}
        try:
            for future in distributed.as_completed(futures):
                yield places[future.key], future.result()
        except (distributed.KilledWorker, CancelledError, distributed.client.FutureCancelledError) as error:
            raise OSError(
                f"the cluster was lost ({type(error).__name__}); the same command goes on from here"
            ) from None

    with client:
        yield run
