"""The page of a comparison."""

from __future__ import annotations

import html
import re

import httpx
import pytest

from lab.synthetic_runs import add_run
from osmosis.platform.platform import Platform
from osmosis.platform.web.compare_view import amount, p_value, signed
from tests.platform.conftest import Account


def text_of(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.fixture
async def runs(platform: Platform, account: Account) -> None:
    def add(name: str, **columns: object) -> None:
        return lambda connection: add_run(
            connection, account.workspace_id, name=name, rows=60, **columns
        )

    await platform.db.transact(add("old-owl-1", grade=lambda _chance, row: float(row % 3 == 0)))
    await platform.db.transact(
        add("new-newt-2", grade=lambda _chance, row: float(row % 3 != 1), model_path="openai/<b>")
    )


@pytest.mark.usefixtures("runs")
async def test_it_says_what_may_be_concluded_and_leads_to_both_trajectories(
    page_client: httpx.AsyncClient,
) -> None:
    answer = await page_client.get("/agents/compare?run=old-owl-1&run=new-newt-2")
    assert answer.status_code == 200
    shown = text_of(answer.text)
    assert "new-newt-2 passes more often than old-owl-1" in shown
    assert "60 rows of both" in shown and "Fixed rows (" in shown
    assert "Clean pass rate" not in shown, "it says what the pass rate says"
    assert 'href="/agents/runs/new-newt-2/samples/2/0"' in answer.text
    assert 'href="/agents/runs/old-owl-1/samples/2/0"' in answer.text
    assert "model path openai/gpt-5-mini → openai/<b>" in shown
    assert "<b>" not in answer.text.replace("&lt;b&gt;", "")


@pytest.mark.usefixtures("runs")
async def test_runs_are_chosen_on_the_list_and_on_the_page_of_a_run(
    page_client: httpx.AsyncClient,
) -> None:
    listed = (await page_client.get("/agents/runs")).text
    assert 'name="run" value="old-owl-1"' in listed and "Compare the chosen runs" in listed
    chosen = "/agents/compare?run=new-newt-2&run=old-owl-1&baseline=last"
    assert "new-newt-2 against old-owl-1" in text_of((await page_client.get(chosen)).text)
    one = (await page_client.get("/agents/runs/new-newt-2")).text
    assert 'action="/agents/compare"' in one and 'name="run" value="new-newt-2"' in one


@pytest.mark.usefixtures("runs")
async def test_mistakes_are_said_on_a_page(page_client: httpx.AsyncClient) -> None:
    answer = await page_client.get("/agents/compare?run=old-owl-1&run=new-newt-1")
    assert answer.status_code == 404 and "new-newt-2" in text_of(answer.text)
    alone = await page_client.get("/agents/compare?run=old-owl-1")
    assert alone.status_code == 400 and "2 to 8 runs" in text_of(alone.text)
    strange = await page_client.get("/others/compare?run=old-owl-1&run=new-newt-2")
    assert strange.status_code == 404


def test_differences_read_well() -> None:
    assert (signed(0.061, "percent"), signed(-0.5, "number")) == ("+6.1 pts", "−0.5")
    assert (signed(-1500, "duration"), signed(12.4, "count")) == ("−1.5 s", "+12")
    assert (amount(0.5, "percent"), amount(0.02, "money")) == ("50.0%", "$0.0200")
    assert (p_value(None), p_value(0.0002), p_value(0.25)) == ("–", "< 0.001", "0.250")
