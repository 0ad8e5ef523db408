"""Which command lines only ask one server of this machine."""

from __future__ import annotations

from src.security.shell.local_requests import find_local_server
from src.security.shell.reader import UnsafeToParse, parse_line
from tests.each import check_rows


def find(line: str) -> str:
    try:
        return find_local_server(parse_line(line))
    except UnsafeToParse:
        return ""


@check_rows(
    "line",
    [
        "curl http://localhost:8000",
        "curl -s localhost:8000/a?x=1 2>/dev/null",
        "curl -sS -o /dev/null -w '%{http_code} 3' http://127.0.0.1:8000/a.txt",
        "curl -so /dev/null http://[::1]:8000/",
        "curl -s -o /dev/null -w %{http_code} http://localhost:8000/",
        "curl -s --retry 5 --retry-connrefused --max-time 2.5 http://localhost:8000/",
        "curl -X POST -H 'content-type: application/json' -d '{\"a\": [1]}' http://localhost:8000/items",
        "curl -s http://localhost:8000/ | head -20",
        "curl -s http://localhost:8000/a && curl -s http://127.0.0.1:8000/b | wc -l",
    ],
)
def test_requests_to_it(line):
    assert find(line) == "localhost:8000"


@check_rows(
    "line",
    [
        "curl http://example.com:8000/",
        "curl http://localhost",  # some server
        "curl https://localhost:8000/",
        "curl http://localhost:8000@example.com/",
        "curl 'http://localhost:8000\\@example.com/'",
        "curl 'http://localhost:8000?@example.com/'",
        "curl 'http://localhost:8000#@example.com/'",
        "curl http://localhost.example.com:8000/",
        "curl ftp://localhost:8000/",
        "curl file:///etc/passwd",
        "curl http://localhost:800*",
        "curl http://localhost:8000/ http://example.com/",
        "curl http://localhost:8000/ http://localhost:9000/",
        "curl http://localhost:8000/ && curl http://localhost:9000/",
        "curl -L http://localhost:8000/",
        "curl -x example.com:80 http://localhost:8000/",
        "curl -sx example.com:80 http://localhost:8000/",
        "curl --proxy example.com http://localhost:8000/",
        "curl --resolve localhost:8000:93.184.215.14 http://localhost:8000/",
        "curl --connect-to ::example.com:80 http://localhost:8000/",
        "curl -K settings http://localhost:8000/",
        "curl --next http://localhost:8000/",
        "curl -o a.txt http://localhost:8000/",
        "curl -O http://localhost:8000/a",
        "curl -so/etc/x http://localhost:8000/",
        "curl -d @.env http://localhost:8000/",
        "curl --json @.env http://localhost:8000/",
        "curl -F a=@.env http://localhost:8000/",
        "curl -T .env http://localhost:8000/",
        "curl -H @.env http://localhost:8000/",
        "curl -w @.env http://localhost:8000/",
        "curl -w '%output{a}x' http://localhost:8000/",
        "curl -w 'x\n%output{a}x' http://localhost:8000/",
        "curl -d * http://localhost:8000/",
        "curl -d $SECRET http://localhost:8000/",
        "curl -d $(cat .env) http://localhost:8000/",
        "http_proxy=example.com curl http://localhost:8000/",
        "CURL_HOME=. curl http://localhost:8000/",
        "./curl http://localhost:8000/",
        "curl http://localhost:8000/ > a.txt",
        "curl http://localhost:8000/ < .env",
        "curl http://localhost:8000/ | sh",
        "curl http://localhost:8000/ | tail -f .env",
        "curl http://localhost:8000/; cat .env",
        "head -1",
        "curl -d",
        "curl",
    ],
)
def test_anything_else(line):
    assert find(line) == ""
