from pathlib import Path

import pytest

REALDATA = Path(__file__).parents[2] / "shared" / "realdata"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    of_gpu = [item for item in items if item.get_closest_marker("gpu")]
    if of_gpu and not _cuda():
        _skip(of_gpu, "no CUDA device")
    if not REALDATA.is_dir():
        _skip([item for item in items if item.get_closest_marker("realdata")], f"not there: {REALDATA}")


def _skip(items: list[pytest.Item], reason: str) -> None:
    for item in items:
        item.add_marker(pytest.mark.skip(reason=reason))


def _cuda() -> bool:
    import torch  # two seconds, which the tests of the data tools need not wait

    return torch.cuda.is_available()


@pytest.fixture(scope="session")
def realdata() -> Path:
    return REALDATA
