from pathlib import Path

import pytest

SHARED = Path(__file__).parents[2] / "shared"
REALDATA = SHARED / "realdata"
PARITY = SHARED / "reference" / "parity.npz"
_NEEDED = {"realdata": ("real recordings are", REALDATA), "parity": ("the reference's outputs are", PARITY)}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for marker, (what, path) in _NEEDED.items():
        if not path.exists():
            for item in items:
                if item.get_closest_marker(marker):
                    item.add_marker(pytest.mark.skip(reason=f"{what} not there: {path}"))


@pytest.fixture(scope="session")
def realdata() -> Path:
    return REALDATA
