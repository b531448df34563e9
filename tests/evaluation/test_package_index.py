from osmosis.evaluation import package_index
from osmosis.evaluation.package_index import index_variables, local_paths


def test_pips_settings_are_said_in_uvs_words(tmp_path):
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nindex-url = https://mirror.test/simple\n"
        f"extra-index-url = file://{tmp_path}/a/simple https://more.test/simple\n"
        "[install]\nfind-links = /wheels\ntrusted-host = mirror.test\n"
    )
    found = index_variables({"PIP_CONFIG_FILE": str(config), "HOME": str(tmp_path)})
    assert found["UV_DEFAULT_INDEX"] == "https://mirror.test/simple"
    assert found["UV_INDEX"] == f"file://{tmp_path}/a/simple https://more.test/simple"
    assert found["UV_INDEX_STRATEGY"] == "unsafe-best-match"
    assert found["UV_FIND_LINKS"] == "/wheels"
    assert found["UV_INSECURE_HOST"] == "mirror.test"


def test_uvs_own_variables_win_and_a_variable_of_pip_wins_over_its_file(tmp_path):
    config = tmp_path / "pip.conf"
    config.write_text("[global]\nindex-url = https://file.test/simple\n")
    environ = {"PIP_CONFIG_FILE": str(config), "PIP_INDEX_URL": "https://variable.test/simple"}
    assert index_variables(environ)["UV_DEFAULT_INDEX"] == "https://variable.test/simple"
    environ["UV_DEFAULT_INDEX"] = "https://uv.test/simple"
    assert index_variables(environ)["UV_DEFAULT_INDEX"] == "https://uv.test/simple"


def test_nothing_else_of_the_machine_is_passed_on():
    environ = {
        "PIP_CONFIG_FILE": "/dev/null",
        "OPENAI_API_KEY": "k",
        "UV_PUBLISH_TOKEN": "t",
        "AWS_SECRET_ACCESS_KEY": "s",
        "HTTPS_PROXY": "http://proxy.test:3128",
        "UV_INDEX_PRIVATE_PASSWORD": "p",
    }
    assert index_variables(environ) == {
        "HTTPS_PROXY": "http://proxy.test:3128",
        "UV_INDEX_PRIVATE_PASSWORD": "p",
    }


def test_local_indexes_and_certificates_are_found(tmp_path):
    (tmp_path / "index/simple").mkdir(parents=True)
    (tmp_path / "wheels").mkdir()
    (tmp_path / "ca.pem").touch()
    variables = {
        "UV_INDEX": f"mine=file://{tmp_path}/index/simple https://more.test/simple",
        "UV_FIND_LINKS": f"{tmp_path}/wheels,https://links.test/",
        "SSL_CERT_FILE": f"{tmp_path}/ca.pem",
        "UV_DEFAULT_INDEX": "file:///nowhere/at/all",
    }
    assert set(local_paths(variables)) == {
        tmp_path / "index",
        tmp_path / "wheels",
        tmp_path / "ca.pem",
    }


def test_the_machines_own_certificates_are_trusted_unless_others_are_named(tmp_path, monkeypatch):
    store = tmp_path / "store.crt"
    monkeypatch.setattr(package_index, "_SYSTEM_STORES", (str(store),))
    assert package_index.system_certificates({}) == {}
    store.write_text("")
    assert package_index.system_certificates({}) == {"UV_SYSTEM_CERTS": "1"}
    assert package_index.system_certificates({"SSL_CERT_FILE": "/own.crt"}) == {}
