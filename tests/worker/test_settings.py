from __future__ import annotations

from pathlib import Path

import pytest

from osmosis.wire.errors import ValidationFailed
from osmosis.worker.settings import load_settings
from osmosis.worker.shard_process import shard_environment

URL = {"OSMOSIS_WORKER_URL": "http://127.0.0.1:7670"}


def test_the_directory_is_the_workers_own_else_the_platforms():
    data = {"OSMOSIS_DATA_DIR": "/data"}
    assert load_settings(URL | data).directory == Path("/data")
    assert load_settings(URL | data | {"OSMOSIS_WORKER_DIR": "/own"}).directory == Path("/own")
    assert load_settings(URL).directory == Path.home() / ".osmosis/worker"


@pytest.mark.parametrize(
    "wrong",
    [
        {"OSMOSIS_WORKER_URL": ""},
        {"OSMOSIS_WORKER_SLOTS": "0"},
        {"OSMOSIS_WORKER_SLOTS": "many"},
        {"OSMOSIS_WORKER_MAX_SHARDS": "65"},
    ],
)
def test_a_wrong_variable_is_named(wrong):
    with pytest.raises(ValidationFailed) as caught:
        load_settings(URL | wrong)
    assert next(iter(wrong)) in caught.value.message


def test_numbers_that_are_not_set_have_their_defaults():
    settings = load_settings(URL | {"OSMOSIS_WORKER_MAX_SHARDS": ""})
    assert (settings.slots, settings.max_shards) == (4, None)
    settings = load_settings(URL | {"OSMOSIS_WORKER_SLOTS": "2", "OSMOSIS_WORKER_MAX_SHARDS": "8"})
    assert (settings.slots, settings.max_shards) == (2, 8)


def test_the_token_is_read_anew_from_its_file(tmp_path):
    file = tmp_path / "token"
    settings = load_settings(URL | {"OSMOSIS_WORKER_TOKEN_FILE": str(file)})
    file.write_text("one\n")
    assert settings.read_token() == "one"
    file.write_text("two\n")
    assert settings.read_token() == "two"


def test_a_shard_gets_no_credentials_of_the_machine():
    given = {
        "PATH": "/bin", "HOME": "/root", "UV_INDEX_URL": "http://index", "LANG": "C",
        "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "b", "AWS_SECRET_ACCESS_KEY": "s",
        "GITHUB_TOKEN": "t", "DB_PASSWORD": "p", "OSMOSIS_WORKER_TOKEN_FILE": "f",
    }  # fmt: skip
    kept = shard_environment(given)
    assert set(kept) == {"PATH", "HOME", "UV_INDEX_URL", "LANG"}
