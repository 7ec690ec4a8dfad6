import argparse
import sys

import pytest

from tests.docs.programs import UnderstoodError
from tests.engine.conftest import archive, dataset, hearts  # noqa: F401


@pytest.fixture
def parsing_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    parse = argparse.ArgumentParser.parse_args

    def and_stop(self: argparse.ArgumentParser, *_: object) -> None:
        parse(self)
        raise UnderstoodError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", and_stop)
    monkeypatch.setattr(sys, "path", list(sys.path))
