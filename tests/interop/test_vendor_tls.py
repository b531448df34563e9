"""The published package through a proxy that ends TLS, with a certificate of one's own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lab.ports import http_json
from lab.workspace import Workspace
from tests.interop.tls import make_certificate, tls_proxy
from tests.interop.vendor import Vendor

pytestmark = [pytest.mark.interop, pytest.mark.timeout(120)]


def test_files_go_up_and_down_over_tls(
    vendor: Vendor, workspace: Workspace, tls_port: int, tmp_path: Path
) -> None:
    chain, key = make_certificate(tmp_path)
    url = f"https://127.0.0.1:{tls_port}"
    over_tls = {
        "OSMOSIS_PLATFORM_URL": url,
        "OSMOSIS_TOKEN_PLATFORM_URL": url,
        "SSL_CERT_FILE": str(chain),
    }
    secure = replace(vendor, env={**vendor.env, **over_tls})
    file = tmp_path / "tls.jsonl"
    file.write_text((workspace.directory / "data/multiply.jsonl").read_text())
    with tls_proxy(tls_port, vendor.lab.port, chain, key):
        secure("dataset", "upload", file, "--yes")
        secure.wait_for_dataset("tls")
        back = tmp_path / "back.jsonl"
        secure("dataset", "download", "tls", "-o", back)
        assert back.read_bytes() == file.read_bytes()


def test_addresses_for_files_keep_the_outer_address(
    vendor: Vendor, workspace: Workspace, sums: str, tls_port: int
) -> None:
    headers = {
        "Authorization": f"Bearer {vendor.env['OSMOSIS_TOKEN']}",
        "X-Osmosis-Workspace": "vendors",
        "Content-Type": "application/json",
        "Host": f"127.0.0.1:{tls_port}",
    }
    body = json.dumps({"file_name": "outer", "file_size": 10, "extension": "csv"}).encode()
    made = http_json(f"{vendor.lab.url}/api/cli/datasets", headers=headers, body=body)
    assert made["upload"]["presigned_url"].startswith(f"https://127.0.0.1:{tls_port}/")
