"""The same work in this process, in several, or on a Dask cluster; results come as they are ready."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, get_context, parent_process
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


def unordered(
    function: Callable[[Task], Result], tasks: list[Task], workers: int, cluster: str | None
) -> Iterator[Result]:
    if cluster is not None:
        yield from _on_cluster(function, tasks, cluster)
    elif workers == 1:
        yield from map(function, tasks)
    else:
        yield from _in_processes(function, tasks, workers)


def _in_processes(function: Callable[[Task], Result], tasks: list[Task], workers: int) -> Iterator[Result]:
    # Spawned, not forked: nothing of the parent (its lock on the folder least of all) lives on in a worker.
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_end_with_parent) as pool:
        futures = [pool.submit(function, task) for task in tasks]
        try:
            for future in as_completed(futures):
                yield future.result()
        except BrokenProcessPool:
            raise OSError("a worker was killed (out of memory?); run the same command again to go on") from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _on_cluster(function: Callable[[Task], Result], tasks: list[Task], address: str) -> Iterator[Result]:
    """The workers see the archive and the dataset under the same paths as this process does."""
    try:
        import distributed
    except ImportError:
        raise ValueError("--cluster needs Dask: pip install 'leadwise[cluster]'") from None
    try:
        client = distributed.Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise ValueError(f"--cluster {address}: no Dask scheduler answers there ({error})") from None
    with client:
        for future in distributed.as_completed(client.map(function, tasks, pure=False)):
            yield future.result()
