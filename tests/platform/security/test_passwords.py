from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from osmosis.platform.accounts import pages, service
from osmosis.platform.platform import Platform
from osmosis.platform.security import passwords
from osmosis.wire.errors import ValidationFailed

PASSWORD = "correct horse battery"


@pytest.fixture(autouse=True)
def _cheap_and_forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(passwords, "COST_N", 2**4)
    pages._password_tries.clear()
    yield
    pages._password_tries.clear()


def test_a_password_fits_its_own_hash_only() -> None:
    stored = passwords.hash_password(PASSWORD)
    assert PASSWORD not in stored
    assert passwords.check_password(PASSWORD, stored)
    assert not passwords.check_password(PASSWORD + " ", stored)
    assert not passwords.check_password(PASSWORD, None)
    assert stored != passwords.hash_password(PASSWORD)


def test_a_short_password_is_refused() -> None:
    with pytest.raises(ValidationFailed):
        passwords.hash_password("short")


async def test_an_admin_signs_in_with_a_password(
    platform: Platform, anonymous: httpx.AsyncClient
) -> None:
    assert 'type="password"' not in (await anonymous.get("/login")).text
    async with platform.db.write() as session:
        user = await service.set_admin(session, PASSWORD, "Ada@Example.test")
    assert user.email == "ada@example.test"
    assert 'type="password"' in (await anonymous.get("/login")).text
    wrong = await anonymous.post("/login", data={"email": user.email, "password": "x" * 20})
    assert wrong.status_code == 403
    right = await anonymous.post(
        "/login", data={"email": user.email, "password": PASSWORD, "next": "/device"}
    )
    assert (right.status_code, right.headers["location"]) == (303, "/device")


async def test_guessing_is_slowed_down(anonymous: httpx.AsyncClient) -> None:
    form = {"email": "a@b.test", "password": "x" * 20}
    answers = [await anonymous.post("/login", data=form) for _ in range(pages.PASSWORD_TRIES + 1)]
    assert [answer.status_code for answer in answers[-2:]] == [403, 429]


async def test_a_new_password_ends_the_sessions_of_the_old_one(
    platform: Platform, page_client: httpx.AsyncClient
) -> None:
    assert (await page_client.get("/device")).status_code == 200
    async with platform.db.write() as session:
        await service.set_admin(session, PASSWORD)
    assert (await page_client.get("/device")).status_code == 303
