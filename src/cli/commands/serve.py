"""`vllm-bot serve`: the gateway in front of vLLM. See docs/serve.md."""

from __future__ import annotations

import argparse
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from ...app.address import complete_address
from ...app.keys import MAX_NAME_CHARS, PREFIX, hash_key
from ...config import Settings
from ...errors import ConfigError
from ...security.text.redact import redact as redact_text
from ...session.journal import redact_value
from ..arguments import parse_number
from ..demo.run import start_demo
from ..load_settings import load_settings

KEY_BYTES = 24


def add_serve_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("urls", metavar="URL", nargs="*", help="addresses of vLLM servers, as with --upstream")
    add(
        "--upstream",
        metavar="URL",
        action="append",
        default=[],
        help="address of a vLLM server, e.g. http://gpu:8000; may be repeated (default: vllm.base_url)",
    )
    add("--listen", metavar="HOST:PORT", help="where to listen; port 0: any free one (default: 127.0.0.1:8010)")
    add("--keys", metavar="FILE", help="digests of the keys of clients; needed for any address but this machine's")
    add("--new-key", metavar="FILE", help="make a key, show it once, add its digest to FILE, and exit")
    add("--key-name", metavar="NAME", default="", help="name of the --new-key, for the request log and the counts")
    add("--request-log", metavar="FILE", help="append a line of JSON for each request; -: to standard output")
    add("--workers", metavar="N", type=parse_number(int, 1), help="processes that share the port (default: 1)")
    add("--demo", action="store_true", default=argparse.SUPPRESS, help="put the built-in script behind the gateway")
    add("--record", metavar="FILE", help="keep each call of the APIs in FILE, with its texts; see docs/serve.md")
    add("--redact", action="store_true", help="leave secrets, token ids and the server's own words out of the record")
    add("--tls", nargs=2, metavar=("CERT", "KEY"), help="serve HTTPS with these PEM files")


def run_serve(options: argparse.Namespace) -> int:
    """Runs until SIGINT or SIGTERM. Raises ConfigError."""
    if options.new_key:
        return _make_key(Path(options.new_key), options.key_name)
    names = ("listen", "keys", "workers", "request_log", "record")
    values: dict[str, object] = {name: getattr(options, name) for name in names}
    values |= {"upstreams": [*options.urls, *options.upstream], "record_redact": options.redact}
    overrides = {f"serve.{name}": value for name, value in values.items() if value}
    if options.demo:
        with start_demo(has_parser=False) as demo:
            overrides["serve.upstreams"] = [demo.overrides["vllm.base_url"]]
            return _serve(options, replace(load_settings(options, **overrides), state=demo.state))
    return _serve(options, load_settings(options, **overrides))


def _serve(options: argparse.Namespace, settings: Settings) -> int:
    """Raises BotError."""
    if not settings.serve.upstreams:
        settings, _ = complete_address(settings)
    with explain_missing():
        from ...serve.run import check, describe, list_unreachable, serve_forever
    tls = tuple(options.tls) if options.tls else None
    settings = check(settings, tls)
    print(describe(settings, tls), file=sys.stderr, flush=True)
    for problem in list_unreachable(settings):
        print(f"! {problem}", file=sys.stderr, flush=True)
    redact = None
    if settings.serve.record and settings.serve.record_redact:
        redact = partial(redact_value, redact=partial(redact_text, secrets=tuple(settings.keys)))
    serve_forever(settings, tls=tls, redact=redact)
    return 0


@contextmanager
def explain_missing() -> Iterator[None]:
    """Raises ConfigError for a package of the gateway that is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(f"The gateway needs {error.name}.", "Install it: pip install 'vllm-bot[serve]'") from error


def _make_key(file: Path, name: str) -> int:
    """Raises ConfigError."""
    if not name.isprintable() or len(name) > MAX_NAME_CHARS:
        raise ConfigError(f"--key-name: expected at most {MAX_NAME_CHARS} printable characters.")
    key = f"vb-{secrets.token_urlsafe(KEY_BYTES)}"
    comment = f" # {name}" if name else ""
    try:
        with file.open("a", encoding="utf-8") as out:
            out.write(f"{PREFIX}{hash_key(key)}{comment}\n")
    except OSError as error:
        raise ConfigError(f"The file of keys cannot be written: {file}: {error.strerror}.") from error
    print(key)
    return 0
