from pathlib import Path

import pytest

REALDATA = Path(__file__).parents[2] / "shared" / "realdata"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not REALDATA.is_dir():
        for item in items:
            if item.get_closest_marker("realdata"):
                item.add_marker(pytest.mark.skip(reason=f"real recordings are not there: {REALDATA}"))


@pytest.fixture(scope="session")
def realdata() -> Path:
    return REALDATA
