from tests.engine.conftest import hearts  # noqa: F401
