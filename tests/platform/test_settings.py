from __future__ import annotations

import stat
from pathlib import Path

import pytest

from osmosis.platform.server import environment
from osmosis.platform.settings import Settings, env_name
from osmosis.wire.errors import ValidationFailed


def test_the_environment_sets_fields_and_flags_win(tmp_path: Path) -> None:
    environ = {"OSMOSIS_DATA_DIR": str(tmp_path), "OSMOSIS_PORT": "9000", "OSMOSIS_HOST": ""}
    settings = Settings.load(environ, port=9001, public_url=None)
    assert settings.data_dir == tmp_path
    assert settings.port == 9001
    assert settings.host == "127.0.0.1"


def test_a_value_out_of_bounds_names_its_variable() -> None:
    with pytest.raises(ValidationFailed) as caught:
        Settings.load({"OSMOSIS_PORT": "70000", "OSMOSIS_PUBLIC_URL": "eval.example"})
    assert {issue.key for issue in caught.value.issues} == {"OSMOSIS_PORT", "OSMOSIS_PUBLIC_URL"}
    assert "OSMOSIS_PORT" in str(caught.value)


def test_a_bad_master_key_is_not_repeated_in_the_error() -> None:
    with pytest.raises(ValidationFailed) as caught:
        Settings.load({"OSMOSIS_MASTER_KEY": "canary-value", "OSMOSIS_PORT": "canary-port"})
    assert "canary" not in str(caught.value.body())


def test_the_data_directory_is_private(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "deep" / "data")
    settings.create_directories()
    assert stat.S_IMODE(settings.data_dir.stat().st_mode) == 0o700
    assert settings.git_dir.is_dir()


def test_settings_survive_the_way_through_an_environment(tmp_path: Path) -> None:
    settings = Settings(
        data_dir=tmp_path, allowed_hosts=("a.example", "b.example"), embedded_worker=False
    )
    assert Settings.load(environment(settings)) == settings


def test_every_field_has_a_line_of_documentation() -> None:
    undocumented = [name for name, field in Settings.model_fields.items() if not field.description]
    assert undocumented == []
    assert env_name("data_dir") == "OSMOSIS_DATA_DIR"
