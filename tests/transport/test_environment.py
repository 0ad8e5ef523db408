"""Proxies and certificates of the environment, as both drivers obey them."""

from importlib.util import find_spec

import pytest

from src.errors import ClientError, ConfigError
from src.transport.environment import Route, find_route
from tests.drivers import fetch
from tests.faults.scripts import body
from tests.faults.server import FaultServer

PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Sets variables; there are no others of proxies and certificates."""
    for name in (*PROXY_VARIABLES, *map(str.lower, PROXY_VARIABLES), *CA_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch.setenv


class TestProxies:
    @pytest.fixture
    def proxied(self, environment):
        """Every scheme has a proxy that takes no connections."""
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            environment(name, "http://127.0.0.1:9")

    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
    def test_this_machine_is_never_asked_through_a_proxy(self, connect, proxied, host):
        with FaultServer(body("{}")) as server:
            assert connect(f"http://{host}:{server.port}/v1", "sekret").run(fetch()).body == b"{}"

    @pytest.mark.parametrize("host", ["server.test", "127.0.0.1.server.test", "localhost.server.test", "10.0.0.1"])
    def test_another_machine_is(self, connect, proxied, host):
        with pytest.raises(ClientError, match="The proxy for http://.* cannot be reached"):
            connect(f"http://{host}/v1").run(fetch())

    @pytest.mark.parametrize("name", ["http_proxy", "all_proxy"])
    def test_a_proxy_gets_the_whole_address(self, connect, environment, name):
        with FaultServer(body("{}")) as proxy:
            environment(name, f"http://127.0.0.1:{proxy.port}")
            assert connect("http://elsewhere.test/v1").run(fetch()).body == b"{}"
        assert proxy.requests[0].line == "POST http://elsewhere.test/v1/chat/completions HTTP/1.1"
        assert proxy.requests[0].headers["host"] == "elsewhere.test"

    def test_a_proxy_gets_the_name_and_password_of_its_address(self, connect, environment):
        with FaultServer(body("{}")) as proxy:
            environment("http_proxy", f"http://Aladdin:open%20sesame@127.0.0.1:{proxy.port}")
            connect("http://elsewhere.test/v1").run(fetch())
        assert proxy.requests[0].headers["proxy-authorization"] == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="

    @pytest.mark.parametrize(
        ("excluded", "address", "is_used"),
        [
            ("server.test", "http://server.test/v1", False),
            ("server.test", "http://gpu.server.test/v1", False),
            (".server.test", "http://gpu.server.test/v1", False),
            ("server.test", "http://otherserver.test/v1", True),
            ("server.test:8000", "http://server.test:8000/v1", False),
            ("server.test:8000", "http://server.test:9000/v1", True),
            ("other.test, server.test", "http://server.test/v1", False),
            ("*", "http://server.test/v1", False),
            ("10.0.0.7", "http://10.0.0.7:8000/v1", False),
            ("10.0.0.0/8", "http://10.1.2.3:8000/v1", False),
            ("10.0.0.0/8", "http://11.1.2.3:8000/v1", True),
            ("10.0.0.0/8", "http://server.test/v1", True),
            ("fd00::/8", "http://[fd12::1]:8000/v1", False),
        ],
    )
    def test_no_proxy_names_hosts_domains_and_networks(self, environment, excluded, address, is_used):
        environment("http_proxy", "proxy.test:3128")
        environment("no_proxy", excluded)
        assert find_route(address, True).proxy == ("http://proxy.test:3128" if is_used else "")

    @pytest.mark.parametrize(
        "named", ["http://[::1", "http://host:port", "ftp://host", "http://", "::::", "http://h:99999"]
    )
    def test_a_proxy_that_is_no_address_is_an_error_of_the_environment(self, environment, named):
        environment("http_proxy", named)
        with pytest.raises(ConfigError, match="The proxy for http://server.test/v1 is not an address") as raised:
            find_route("http://server.test/v1", True)
        assert "HTTP_PROXY" in raised.value.hint

    @pytest.mark.skipif(find_spec("socks") is not None, reason="the package is installed")
    def test_a_socks_proxy_without_its_package_says_what_to_install(self, environment):
        from tests.drivers import ThreadDriver

        environment("http_proxy", "socks5h://127.0.0.1:9")
        with pytest.raises(ClientError, match="SOCKS") as raised:
            ThreadDriver("http://server.test/v1").run(fetch())
        assert "pip install PySocks" in raised.value.hint

    def test_a_socks_proxy_is_none_for_asyncio(self, environment):
        from tests.drivers import AsyncioDriver

        environment("http_proxy", "socks5h://127.0.0.1:9")
        driver = AsyncioDriver("http://server.test/v1")
        with pytest.raises(ClientError, match="asyncio cannot use"):
            driver.run(fetch())
        driver.close()


class TestCertificates:
    @pytest.mark.parametrize("name", CA_VARIABLES)
    def test_a_variable_names_them(self, environment, name):
        environment(name, __file__)
        assert find_route("https://server.test/v1", True) == Route("", __file__)

    def test_the_setting_comes_first(self, environment):
        environment("REQUESTS_CA_BUNDLE", __file__)
        assert find_route("https://server.test/v1", "mine.pem").verify == "mine.pem"
        assert find_route("https://server.test/v1", False).verify is False
