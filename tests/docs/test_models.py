"""docs/models.md and docs/scripted-models.md say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from osmosis.evaluation.gateway.litellm_adapter import CREDENTIALS
from osmosis.evaluation.gateway.providers import PROVIDERS
from osmosis.evaluation.gateway.script_format import Rule, Script, ScriptedError, read_script
from osmosis.evaluation.gateway.script_template import FUNCTIONS

DOCS = Path(__file__).parents[2] / "docs"
MODELS = (DOCS / "models.md").read_text()
SCRIPTED = (DOCS / "scripted-models.md").read_text()
EXAMPLES = re.findall(r"^```toml\n(.*?)^```", SCRIPTED, re.M | re.S)


@pytest.mark.parametrize("prefix", sorted(PROVIDERS))
def test_each_provider_is_documented_with_its_variables(prefix: str) -> None:
    provider = PROVIDERS[prefix]
    row = next(line for line in MODELS.splitlines() if f"`{prefix}/`" in line and "|" in line)
    _, _, keys, bases, _ = row.split("|")
    documented = re.findall(r"`([A-Z_]+)`", keys)
    assert documented
    assert set(documented) <= set(provider.key_names)
    assert set(re.findall(r"`([A-Z_]+)`", bases)) <= set(provider.base_names)
    assert ("optional" in keys) is not provider.key_required
    assert ("required" in bases) is (provider.base_url is None)


@pytest.mark.parametrize("prefix", sorted(CREDENTIALS))
def test_each_special_provider_of_litellm_is_documented(prefix: str) -> None:
    assert f"`{prefix.removesuffix('_chat')}/`" in MODELS


@pytest.mark.parametrize("name", [*Script.model_fields, *Rule.model_fields])
def test_each_key_of_a_script_is_documented(name: str) -> None:
    assert re.search(rf"^\| `{name}` \|", SCRIPTED, re.M)


@pytest.mark.parametrize("name", [*ScriptedError.model_fields, *FUNCTIONS])
def test_parts_of_keys_and_functions_are_documented(name: str) -> None:
    assert name in SCRIPTED


@pytest.mark.parametrize("example", range(len(EXAMPLES)))
def test_each_example_is_a_valid_script(example: int, tmp_path: Path) -> None:
    path = tmp_path / "example.toml"
    path.write_text(EXAMPLES[example])
    assert read_script(path, "example.toml").rules
