from tests.cli.conftest import genan, refused  # noqa: F401
