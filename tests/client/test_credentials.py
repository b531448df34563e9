from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from osmosis.client.credentials import credentials_path, forget_login, load_login, save_login
from osmosis.wire.errors import AuthRequired, OsmosisError

URL = "https://eval.example"
ANSWER: dict[str, Any] = {
    "user": {"id": "u1", "email": "ada@example.test", "name": "Ada"},
    "token_id": "t1",
}


def write(document: Any) -> None:
    path = credentials_path()
    path.parent.mkdir(parents=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))


def test_a_saved_login_is_read_again():
    save_login(URL, "secret", ANSWER)
    login = load_login(URL)
    assert login is not None
    assert (login.token, login.email, login.token_id) == ("secret", "ada@example.test", "t1")
    assert not login.expired


def test_the_file_is_private_and_of_version_2():
    save_login(URL, "secret", ANSWER)
    path = credentials_path()
    assert path.stat().st_mode & 0o777 == 0o600
    entry = json.loads(path.read_text())["platforms"][URL]
    assert json.loads(path.read_text())["version"] == 2
    assert entry["token_type"] == "Bearer"
    assert entry["token_store"] == "file"
    assert datetime.fromisoformat(entry["expires_at"]).tzinfo is not None


def test_no_temporary_file_is_left():
    save_login(URL, "secret", ANSWER)
    assert [path.name for path in credentials_path().parent.iterdir()] == ["credentials.json"]


def test_a_login_without_an_end_lasts_90_days():
    login = save_login(URL, "secret", ANSWER)
    left = datetime.fromisoformat(login.expires_at or "") - datetime.now(UTC)
    assert timedelta(days=89) < left <= timedelta(days=90)


def test_an_expired_answer_is_refused():
    with pytest.raises(AuthRequired):
        save_login(URL, "secret", {**ANSWER, "expires_at": "2001-01-01T00:00:00Z"})


def test_logins_of_other_platforms_stay():
    save_login(URL, "one", ANSWER)
    save_login("http://127.0.0.1:7670", "two", ANSWER)
    assert forget_login(URL)
    assert not forget_login(URL)
    assert load_login(URL) is None
    other = load_login("http://127.0.0.1:7670")
    assert other is not None
    assert other.token == "two"


def test_a_login_in_the_keyring_has_no_token_here():
    entry = {"token_store": "keyring", "expires_at": None, "user": {"email": "a@b"}}
    write({"version": 2, "platforms": {URL: entry}})
    login = load_login(URL)
    assert login is not None
    assert login.token is None


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ("{", "CREDENTIALS_PARSE_FAILED"),
        ([], "CREDENTIALS_PARSE_FAILED"),
        ({"version": 2}, "CREDENTIALS_PARSE_FAILED"),
        ({"version": 3, "platforms": {}}, "CREDENTIALS_VERSION_CHANGED"),
    ],
)
def test_an_unusable_file_is_told_with_its_remedy(document: Any, code: str):
    write(document)
    with pytest.raises(OsmosisError) as failed:
        load_login(URL)
    assert failed.value.code == code
    assert failed.value.hint


def test_a_broken_file_is_not_overwritten(home: Path):
    write("{")
    with pytest.raises(OsmosisError):
        save_login(URL, "secret", ANSWER)
    assert credentials_path().read_text() == "{"
