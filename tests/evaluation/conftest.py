import pytest

from tests.evaluation.engine_fakes import World


@pytest.fixture
def world(tmp_path):
    root = tmp_path / "artifacts"
    root.mkdir()
    return World(artifact_root=root)
