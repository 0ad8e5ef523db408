"""TLS as this Python checks it, against valid and invalid certificates.

The certificates in this folder were made for these tests, until 2125; their keys guard nothing.
"""

from contextlib import closing
from pathlib import Path

import pytest

from src.errors import ConfigError, StreamCut, TlsFailed
from tests.drivers import fetch

from .scripts import body
from .server import FaultServer

CERTIFICATES = Path(__file__).parent / "certificates"
AUTHORITY = str(CERTIFICATES / "authority.pem")


def get(connect, certificate, **settings):
    with (
        FaultServer(body("{}"), tls=str(CERTIFICATES / certificate)) as server,
        closing(connect(f"https://127.0.0.1:{server.port}/v1", "sekret", **settings)) as driver,
    ):
        return driver.run(fetch("GET", "anything", None)).body


@pytest.mark.parametrize("verify", [AUTHORITY, False])
def test_a_server_is_trusted_where_its_authority_is_or_where_the_user_said_so(connect, verify):
    assert get(connect, "trusted.pem", ssl_verify=verify) == b"{}"


def test_a_server_is_trusted_where_the_environment_names_its_authority(connect, monkeypatch):
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", AUTHORITY)
    assert get(connect, "trusted.pem") == b"{}"
    with pytest.raises(TlsFailed):  # the setting wins
        get(connect, "trusted.pem", ssl_verify=str(CERTIFICATES / "selfsigned.pem"))


def test_a_self_signed_certificate_can_be_its_own_authority(connect):
    assert get(connect, "selfsigned.pem", ssl_verify=str(CERTIFICATES / "selfsigned.pem")) == b"{}"


@pytest.mark.parametrize(
    ("certificate", "verify", "reason", "hint"),
    [
        ("selfsigned.pem", True, "its certificate is self-signed", "vllm.ssl_verify"),
        ("trusted.pem", True, "signed by an authority that is not known here", "vllm.ssl_verify"),
        ("expired.pem", AUTHORITY, "its certificate has expired", "vllm.ssl_verify: false"),
        ("elsewhere.pem", AUTHORITY, "its certificate is for another host", "vllm.base_url"),
    ],
)
def test_a_certificate_that_does_not_hold_is_refused_with_the_reason_and_the_setting(
    connect, certificate, verify, reason, hint
):
    with pytest.raises(TlsFailed) as raised:
        get(connect, certificate, ssl_verify=verify)
    assert reason in raised.value.message
    assert hint in raised.value.hint


@pytest.mark.parametrize("certificate", ["selfsigned.pem", "expired.pem", "elsewhere.pem"])
def test_no_request_is_sent_to_a_server_that_is_not_trusted(connect, certificate):
    with FaultServer(body("{}"), tls=str(CERTIFICATES / certificate)) as server, pytest.raises(TlsFailed):
        connect(f"https://127.0.0.1:{server.port}/v1", "sekret").run(fetch())
    assert server.requests == []


@pytest.mark.parametrize("as_folder", [False, True])
def test_the_authority_may_be_in_a_file_or_in_a_folder(connect, tmp_path, as_folder):
    """OpenSSL finds a certificate of a folder by the hash of its name."""
    link = tmp_path / "1c06b1b6.0"
    link.symlink_to(AUTHORITY)
    assert get(connect, "trusted.pem", ssl_verify=str(tmp_path if as_folder else link)) == b"{}"


def test_a_ca_file_that_is_not_there_is_named(connect, tmp_path):
    with pytest.raises(TlsFailed, match="there is no file .*lost.pem"):
        get(connect, "trusted.pem", ssl_verify=str(tmp_path / "lost.pem"))


def test_a_file_that_is_not_a_ca_bundle_is_a_tls_failure(connect, tmp_path):
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(TlsFailed, match="TLS with"):
        get(connect, "trusted.pem", ssl_verify=str(tmp_path / "ca.pem"))


def test_a_plain_request_to_a_tls_server_says_so(connect):
    """This server closes without a word, as uvicorn does; the hint covers it."""
    with (
        FaultServer(body("{}"), tls=str(CERTIFICATES / "trusted.pem")) as server,
        pytest.raises((StreamCut, TlsFailed)) as raised,
    ):
        connect(f"http://127.0.0.1:{server.port}/v1").run(fetch())
    assert "https://" in raised.value.hint


@pytest.mark.parametrize("key", ["line\nbreak", "schlüssel", "nul\0"])
def test_a_key_that_no_header_can_hold_is_a_setting_to_mend_and_is_not_shown(connect, key):
    with pytest.raises(ConfigError) as raised:
        connect("http://127.0.0.1:9/v1", key)
    assert key not in str(raised.value)
