"""Starts the gateway: settings in, worker processes that listen on one port."""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import signal
import ssl
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias, Union
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from msgspec.structs import replace

from ..app.async_model import make_async_client
from ..app.keys import read_keys
from ..app.listening import ListenAddress, explain_listen, find_free, parse_listen
from ..app.state_files import ServerMemory
from ..config import Settings, read_debug_level
from ..config.settings import ServeSettings
from ..errors import FAILED, BotError, ConfigError, describe_error
from ..transport.http import try_connecting
from ..types.hosts import is_loopback
from .admission import AccessRules
from .gateway import HAS_ASKED, MAX_HEADER_BYTES, Gateway
from .memory import Memory, OwnMemory, SharedMemory, serve_memory, share_memory
from .pages.metrics import Metrics
from .record.entry import Redact
from .record.log_file import LogFile
from .record.recorder import Recorder
from .request_log import RequestLog
from .restore import HistoryMemo
from .turn_options import TurnOptions
from .upstreams import Replica, Upstreams
from .workers import ENDING, NOTICE_S, SHUTDOWN_S, STREAMS_FINISH, make_hangup_handler, supervise

BLOCKED = (*ENDING, signal.SIGHUP)  # until the loop handles them
CONNECT_TIMEOUT_S = 3.0
KEEP_ALIVE_S = 75.0
MAX_PARSED_BYTES = 4 * MAX_HEADER_BYTES  # of a line; aiohttp refuses what is longer, and not in the API's words
HEAD_TIMEOUT_S = 15.0  # at least; at most twice as long

log = logging.getLogger(__name__)

TlsFiles: TypeAlias = Union[tuple[str, str], None]  # of certificate and key


def check(settings: Settings, tls: TlsFiles = None) -> Settings:
    """The settings, with a free port where they name port 0. Raises ConfigError if no gateway can start with them."""
    options = settings.serve
    address = parse_listen(options.listen, "serve.listen")
    if not options.keys and not is_loopback(address.host):
        hint = "Give a file with --keys; `vllm-bot serve --new-key FILE` makes one."
        raise ConfigError(f"Without keys the gateway listens on this machine only, not on {address.host}.", hint)
    make_upstreams(settings)
    names: Collection[str] = ()
    if options.keys:
        names = read_keys(Path(options.keys)).names
    if options.request_log:
        RequestLog(options.request_log)
    _check_record(options, names)
    _load_tls(tls)
    return replace(settings, serve=replace(options, listen=str(find_free("The gateway", address))))


def _check_record(options: ServeSettings, names: Collection[str]) -> None:
    """`names`: of the keys of clients. Raises ConfigError."""
    if unknown := [each for each in options.record_keys if each not in names]:
        hint = "A key's name stands behind # in the file of keys; without one, it is the first 8 digits of its digest."
        raise ConfigError(f"serve.record_keys: there is no key of the name {unknown[0]!r}.", hint)
    if options.record:
        try:
            _make_log_file(options).check()
        except OSError as error:
            raise ConfigError(f"The record cannot be written: {options.record}: {error.strerror}.") from error


def _make_log_file(options: ServeSettings) -> LogFile:
    return LogFile(Path(options.record), int(options.record_max_mb * 1_000_000), options.record_files)


def _load_tls(tls: TlsFiles) -> ssl.SSLContext | None:
    """Raises ConfigError."""
    if tls is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(*tls)
    except OSError as error:  # SSLError is one
        raise ConfigError(f"--tls: {tls[0]} and {tls[1]} are no certificate and its key: {error}.") from error
    return context


def serve_forever(settings: Settings, *, tls: TlsFiles = None, redact: Redact | None = None) -> None:
    """Run until SIGINT or SIGTERM. `redact`: for the record; see Recorder. Raises ConfigError and OSError."""
    options = settings.serve
    address = parse_listen(options.listen, "serve.listen")
    with TemporaryDirectory(prefix="vllm-bot-serve-") as folder:
        if options.workers == 1:
            _serve(settings, address, tls, folder, redact)
            return
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # where the workers' counts are; see metrics.py
        if options.restore:
            serve_memory(Path(folder), share_memory(options.workers).answers)
        process = multiprocessing.get_context("spawn").Process

        def make_worker(is_restart: bool) -> BaseProcess:
            return process(target=_run_worker, args=(settings, address, tls, folder, redact, is_restart))

        supervise(make_worker, options.workers, reloads=bool(options.keys))


def describe(settings: Settings, tls: TlsFiles = None) -> str:
    """Where the gateway listens and what for. Raises ConfigError."""
    servers = ", ".join(replica.root for replica in make_upstreams(settings).replicas)
    scheme, address = "https" if tls else "http", parse_listen(settings.serve.listen, "serve.listen")
    return f"vllm-bot serve: {scheme}://{address} in front of {servers}. Ctrl-C ends it."


def list_unreachable(settings: Settings) -> Iterator[str]:
    """The servers that accept no connection now, each with the reason. They may come later."""
    for replica in make_upstreams(settings).replicas:
        try:
            try_connecting(replica.root, CONNECT_TIMEOUT_S)
        except OSError as error:
            yield f"{replica.root} does not answer yet: {error.strerror or error}."


def make_upstreams(settings: Settings) -> Upstreams:
    """Raises ConfigError."""
    addresses = [_complete(url) for url in settings.serve.upstreams] or [settings.vllm.base_url]
    memory = ServerMemory(settings.state)
    places = {**settings.places, "vllm.base_url": "argument upstream"}
    replicas = []
    for address in addresses:
        named = replace(settings, vllm=replace(settings.vllm, base_url=address), places=places)
        replicas.append(Replica(make_async_client(named, keeps_cookies=False), memory))
    return Upstreams(replicas)


def _complete(url: str) -> str:
    """With scheme and /v1. Raises ConfigError."""
    address = (url if "://" in url else f"http://{url}").rstrip("/")
    try:
        parts = urlsplit(address)
        is_valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # the port is no number, or too large
        is_valid = False
    if not is_valid:
        raise ConfigError(f"serve.upstreams: expected an address such as http://gpu:8000, got {url!r}.")
    return address if address.endswith("/v1") else f"{address}/v1"


def _run_worker(settings: Settings, *rest: Any) -> None:
    """The process of one of many workers: what `_serve` raises is told in a line, and by the exit code."""
    try:
        _serve(settings, *rest)
    except (BotError, OSError) as error:
        log.error("A worker cannot run: %s", describe_error(error), exc_info=bool(read_debug_level(os.environ)))
        sys.exit(error.exit_code if isinstance(error, BotError) else FAILED)


def _serve(
    settings: Settings,
    address: ListenAddress,
    tls: TlsFiles,
    folder: str,
    redact: Redact | None,
    is_restart: bool = False,
) -> None:
    """One worker. `folder`: of the counts. `redact`: see serve_forever. `is_restart`: it takes the place of one that
    ended.
    """
    with suppress(ImportError):  # faster, and not needed
        import uvloop

        asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    options, metrics = settings.serve, Metrics(Path(folder))
    if is_restart:
        metrics.count_restart()
    gateway = _make_gateway(settings, metrics, Path(folder), redact)
    reload: Callable[[], None] | None = None
    if options.keys:
        reload = partial(_reload_keys, gateway, Path(options.keys))
    checks = _load_tls(tls)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)  # until the loop handles them
    try:
        is_interrupted = asyncio.run(
            _listen(
                gateway.make_app(),
                address,
                checks,
                mask,
                is_shared=options.workers > 1,
                reload=reload,
            )
        )
    except asyncio.CancelledError:  # Ctrl-C came before the loop had its handler, by a thread that blocks no signals
        is_interrupted = True
    except OSError as error:
        raise explain_listen("The gateway", address, error) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if is_interrupted:
        raise KeyboardInterrupt


def _make_gateway(settings: Settings, metrics: Metrics, folder: Path, redact: Redact | None) -> Gateway:
    """`folder`: where the parent of several workers has its socket. Raises ConfigError."""
    options = settings.serve
    keys = read_keys(Path(options.keys)) if options.keys else None
    memory: Memory | None = None
    if options.restore and options.workers == 1:
        memory = OwnMemory()
    elif options.restore:
        memory = SharedMemory(folder)
    request_log = RequestLog(options.request_log) if options.request_log else None
    recorder: Recorder | None = None
    if options.record:
        recorder = Recorder(_make_log_file(options), redact, options.record_keys)
    return Gateway(
        make_upstreams(settings),
        metrics,
        keys,
        TurnOptions(
            options.repair_turns,
            settings.vllm.recover_parser_errors,
            settings.text_protocol.constrained,
            options.guards,
        ),
        AccessRules(options.hosts, options.origins, options.relay),
        options.keep_alive,
        memory,
        request_log,
        recorder,
        HistoryMemo(share_memory(options.workers).histories),
    )


def _reload_keys(gateway: Gateway, file: Path) -> None:
    """Keys that cannot be read change nothing."""
    try:
        gateway.keys = read_keys(file)
    except ConfigError as error:
        log.warning("The keys stay as they were. %s", error.message)
    else:
        log.warning("The keys were read anew.")


async def _listen(
    app: web.Application,
    address: ListenAddress,
    checks: ssl.SSLContext | None,
    mask: Iterable[int],
    *,
    is_shared: bool,
    reload: Callable[[], None] | None = None,
) -> bool:
    """Serve until SIGINT or SIGTERM, then let streams finish. Returns whether another Ctrl-C ended the streams.

    `mask`: the signals to restore once the loop handles those that end the program. `is_shared`: other workers listen
    on the address too. `reload`: at SIGHUP; None: that ends the program. Raises OSError where the address is not free.
    """
    logging.getLogger("aiohttp.server").addFilter(hide_request)
    runner = web.AppRunner(
        app,
        shutdown_timeout=SHUTDOWN_S,
        keepalive_timeout=KEEP_ALIVE_S,
        handler_cancellation=True,
        access_log=None,
        max_line_size=MAX_PARSED_BYTES,
        max_field_size=MAX_PARSED_BYTES,
    )
    await runner.setup()
    stopped, is_interrupted, loop = asyncio.Event(), asyncio.Event(), asyncio.get_running_loop()

    def end_streams() -> None:
        is_interrupted.set()
        for each in runner.server.connections if runner.server else ():
            if each.transport:
                each.transport.abort()

    for number in ENDING:
        loop.add_signal_handler(number, stopped.set)
    if reload:
        loop.add_signal_handler(signal.SIGHUP, make_hangup_handler(reload, stopped.set))
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGHUP])  # blocked by who has started a worker
    try:
        await web.TCPSite(runner, address.host, address.port, ssl_context=checks, reuse_port=is_shared).start()
        watch = asyncio.create_task(close_silent(runner.server, app[HAS_ASKED], HEAD_TIMEOUT_S))
        await stopped.wait()
        watch.cancel()
        if not is_shared:
            loop.call_later(NOTICE_S, log.warning, STREAMS_FINISH)
    finally:
        loop.add_signal_handler(signal.SIGINT, end_streams)
        await runner.cleanup()
    return is_interrupted.is_set()


def hide_request(record: logging.LogRecord) -> bool:
    """A filter for the log: of a malformed request no part is quoted, since it may hold a key."""
    if record.exc_info and isinstance(error := record.exc_info[1], HttpProcessingError):
        record.msg, record.args, record.exc_info = "A malformed request was refused: %s.", (type(error).__name__,), None
    return True


async def close_silent(server: web.Server | None, has_asked: set[object], seconds: float) -> None:
    """Close connections whose first request has no whole head after so many seconds. Ends when it is cancelled.

    Of a connection that has asked before, aiohttp closes what is idle for KEEP_ALIVE_S.
    """
    waiting: set[web.RequestHandler] = set()
    while server is not None:
        await asyncio.sleep(seconds)
        has_asked.intersection_update(server.connections)  # those that are still there
        silent = {each for each in server.connections if each not in has_asked}
        for each in silent & waiting:
            each.force_close()
            if each.transport:
                each.transport.close()
        waiting = silent
