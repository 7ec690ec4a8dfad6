from pathlib import Path

import pytest
from hypothesis import settings

SHARED = Path(__file__).parents[2] / "shared"
REALDATA = SHARED / "realdata"
PARITY = SHARED / "reference" / "parity.npz"
ORACLE = SHARED / "cinc_oracle"
_NEEDED = {
    "realdata": ("real recordings are", REALDATA),
    "parity": ("the reference's outputs are", PARITY),
    "oracle": ("figures of the official CinC program are", ORACLE),
}

# The same examples on every machine, however busy it is.
settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile("same")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for marker, (what, path) in _NEEDED.items():
        if not path.exists():
            _skip(items, marker, f"{what} not there: {path}")
    if any(item.get_closest_marker("gpu") for item in items) and not _cuda():
        _skip(items, "gpu", "no CUDA device")


def _skip(items: list[pytest.Item], marker: str, reason: str) -> None:
    for item in items:
        if item.get_closest_marker(marker):
            item.add_marker(pytest.mark.skip(reason=reason))


def _cuda() -> bool:
    import torch  # two seconds, which the tests of the data tools need not wait

    return torch.cuda.is_available()


@pytest.fixture(scope="session")
def realdata() -> Path:
    return REALDATA
