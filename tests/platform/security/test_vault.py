from __future__ import annotations

import stat
from pathlib import Path

import pytest

from osmosis.platform.security.vault import Vault, VaultError
from osmosis.platform.settings import Settings


def vault(directory: Path, **more: object) -> Vault:
    settings = Settings(data_dir=directory, **more)
    settings.create_directories()
    return Vault.open(settings)


def test_a_value_comes_back_under_its_own_context_only(tmp_path: Path) -> None:
    opened = vault(tmp_path)
    cipher = opened.encrypt(b"value", "secret:a")
    assert b"value" not in cipher
    assert opened.decrypt(cipher, "secret:a") == b"value"
    with pytest.raises(VaultError):
        opened.decrypt(cipher, "secret:b")


def test_the_same_value_never_looks_the_same(tmp_path: Path) -> None:
    opened = vault(tmp_path)
    assert opened.encrypt(b"v", "c") != opened.encrypt(b"v", "c")


def test_the_key_file_is_private_and_kept(tmp_path: Path) -> None:
    cipher = vault(tmp_path).encrypt(b"v", "c")
    key = tmp_path / "master.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert vault(tmp_path).decrypt(cipher, "c") == b"v"
    key.unlink()
    with pytest.raises(VaultError, match="master key is not the one"):
        vault(tmp_path).decrypt(cipher, "c")


def test_a_key_from_the_environment_makes_no_file(tmp_path: Path) -> None:
    vault(tmp_path, master_key="A" * 43 + "=")
    assert not (tmp_path / "master.key").exists()


@pytest.mark.parametrize("key", ["not base64!", "QUJD", ""])
def test_a_malformed_key_is_refused_without_being_shown(tmp_path: Path, key: str) -> None:
    with pytest.raises(VaultError) as caught:
        vault(tmp_path, master_key=key)
    assert not key or key not in str(caught.value)


@pytest.mark.parametrize("change", [b"", b"\x02", b"\x01short"])
def test_a_damaged_ciphertext_is_an_error_and_not_a_crash(tmp_path: Path, change: bytes) -> None:
    with pytest.raises(VaultError):
        vault(tmp_path).decrypt(change, "c")


def test_derived_keys_differ_by_purpose(tmp_path: Path) -> None:
    opened = vault(tmp_path)
    assert opened.derive("a") == opened.derive("a") != opened.derive("b")
