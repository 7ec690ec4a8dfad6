from tests.engine.conftest import archive, dataset, hearts  # noqa: F401
