import json

import numpy as np
import pytest

from data_tools.labels import CLASSES
from tests.conftest import ORACLE

Cases = dict[str, tuple[dict[str, np.ndarray], dict[str, float]]]


@pytest.fixture(scope="session")
def oracle() -> Cases:
    """case -> (labels, binary and scalar outputs), what the official program says of them."""
    arrays = np.load(ORACLE / "oracle.npz")
    codes = [set(name.split("|")) for name in arrays["classes"]]
    assert codes == [set(c.codes) for c in CLASSES]  # the order of CLASS_NAMES
    expected = json.loads((ORACLE / "expected.json").read_text())
    return {
        case: ({part: arrays[f"{case}__{part}"] for part in ("labels", "binary", "scalar")}, figures)
        for case, figures in expected.items()
    }
