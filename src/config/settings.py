"""The settings: each key with its default, its meaning and its limits.

Tests compare docs/configuration.md with this file. Annotations are types here, not text, because
load.py looks up how a field is read by its type.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from .locations import get_state_folder

MODES = ("plan", "ask", "edits", "auto", "full")  # src/security/permissions/modes.py says what each allows
PROFILE_MODES: Mapping[str, str] = {"read-only": "plan", "ask": "ask", "workspace": "edits", "full": "full"}
CALL_PATHS = ("tokens", "native", "template", "text")  # src/negotiation/call_path.py says what each does
GUARDS = ("fit", "empty", "form", "unknown", "announced", "loops")  # docs/serve.md says what each does
DEFAULT_GUARDS = ("fit", "empty", "form")
WEEK_S = 7 * 24 * 3600.0  # the longest wait; the system's clocks cannot hold every number


def option(
    default: object,
    about: str,
    *,
    least: float | None = None,
    most: float | None = None,
    choices: Iterable[str] = (),
    secret: bool = False,
    per_model: bool = False,
) -> Any:
    """A field that a user may set: its meaning, the limits of a number, and the choices for a word.

    `per_model`: an entry of `models` may set it for the models that it names.
    """
    facts = {"about": about, "least": least, "most": most, "choices": choices, "per_model": per_model}
    if default == {}:
        return field(default_factory=dict, repr=not secret, metadata=facts)
    return field(default=default, repr=not secret, metadata=facts)


# Of each provider. The one of Vertex AI depends on project and region. Copilot's stands for the CLI's own sign-in.
BASE_URLS = {
    "vllm": "http://localhost:8000/v1",
    "openai": "https://api.openai.com/v1",
    "ollama": "http://localhost:11434/v1",
    "anthropic": "https://api.anthropic.com/v1",
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
    "vertex": "",
    "copilot": "https://api.githubcopilot.com",
}


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """The server, its model, and how it is asked."""

    provider: str = option("vllm", f"Whose API the server speaks: {', '.join(BASE_URLS)}", choices=BASE_URLS)
    base_url: str = option(BASE_URLS["vllm"], "Address of the server, including `/v1`; default: the provider's own")
    model: str = option("", "Model to use; empty: `default_model_index` decides, else the server is asked")
    api_key: str = option("", "API key; better kept in `VLLM_API_KEY`", secret=True)
    temperature: float | None = option(
        None, "Sampling temperature; null, here and below: the server's default", least=0, per_model=True
    )
    max_tokens: int | None = option(
        None, "Longest answer, in tokens; null: whatever the context allows", least=1, per_model=True
    )
    top_p: float | None = option(
        None, "Sample from the likeliest tokens with this total probability", least=0, most=1, per_model=True
    )
    top_k: int | None = option(None, "Sample from this many of the likeliest tokens; -1: all", least=-1, per_model=True)
    min_p: float | None = option(
        None, "Sample from tokens at least this likely, beside the likeliest", least=0, most=1, per_model=True
    )
    presence_penalty: float | None = option(
        None, "Lowers tokens that have occurred in the answer", least=-2, most=2, per_model=True
    )
    frequency_penalty: float | None = option(
        None, "Lowers tokens by how often they have occurred in the answer", least=-2, most=2, per_model=True
    )
    repetition_penalty: float | None = option(
        None, "Divides the scores of tokens that have occurred; above 1 lowers them", least=0, per_model=True
    )
    seed: int | None = option(None, "Seed of the sampling", per_model=True)
    stop: tuple[str, ...] = option((), "Texts that end the answer", per_model=True)
    reasoning_effort: str = option(
        "", "How much a reasoning model thinks, e.g. low, medium or high; empty: the server's default", per_model=True
    )
    chat_template_kwargs: Mapping[str, Any] = option(
        {}, 'What the model\'s chat template is given, e.g. `{"enable_thinking": false}`', per_model=True
    )
    extra_body: Mapping[str, Any] = option(
        {}, "More fields of each request, as the server names them; they override the settings above", per_model=True
    )
    headers: Mapping[str, str] = option({}, "HTTP headers sent with each request", secret=True)
    available_models: tuple[str, ...] = option((), "Models to choose from")
    default_model_index: int = option(0, "Which of `available_models` to use, counting from 0", least=0)
    enable_function_calling: bool = option(
        True, "Send `tools` to the server; false: have the model write calls as text", per_model=True
    )
    paths: tuple[str, ...] = option(
        CALL_PATHS, "How tools are offered, in order of preference; what the server refuses is left out", per_model=True
    )
    strict_tools: bool = option(
        True, "Have the server constrain native calls to their schemas where it can", per_model=True
    )
    stream: bool = option(
        True, "Stream answers; false: fetch them whole, for servers that lose parts of a stream", per_model=True
    )
    recover_parser_errors: bool = option(
        True, "Ask once more, with calls as text, where the server's parser made an error of an answer", per_model=True
    )
    send_thoughts: str = option(
        "auto",
        "Send a model its earlier thoughts; auto: unless its chat template shows none",
        choices=("auto", "always", "never"),
        per_model=True,
    )
    diagnostics: bool = option(
        True,
        "Tell the model what the project's own checkers say of files that it changed, in folders that you trust",
        per_model=True,
    )
    timeout: float = option(300.0, "Longest pause within an answer, in seconds", least=0.01, most=WEEK_S)
    connect_timeout: float = option(5.0, "Longest wait for a connection, in seconds", least=0.01, most=WEEK_S)
    first_token_timeout: float = option(600.0, "Longest wait for the first token, in seconds", least=0.01, most=WEEK_S)
    total_timeout: float = option(3600.0, "Longest time for a whole answer, in seconds", least=0.01, most=WEEK_S)
    load_timeout: float = option(
        300.0, "Longest wait while the server loads its model, in seconds", least=0, most=WEEK_S
    )
    retries: int = option(2, "Retries after a failure, as long as nothing of the answer has been shown", least=0)
    ssl_verify: bool | str = option(True, "Check TLS certificates: true, false, or the path of a CA file (PEM)")


@dataclass(frozen=True, slots=True)
class TextProtocolSettings:
    """How calls are written where the server reads none."""

    constrained: str = option(
        "auto",
        "Have vLLM allow only a valid call after `TOOL_CALL:`, or after what begins one in the model's own format; "
        "auto: if it can; on: require it",
        choices=("auto", "on", "off"),
    )


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The limits of an agent, and how its conversation is summarized."""

    max_tool_turns: int = option(
        10,
        "Turns with tool calls before the model must answer; in the chat only where it is set, and you are asked",
        least=1,
    )
    finish_announced: bool = option(
        False, "Ask the model once more where an answer behind results ends in what it is about to do"
    )
    max_parallel_calls: int = option(4, "How many low-risk calls may run at the same time", least=1, most=64)
    compact_at: float | None = option(
        0.85,
        "How full the context gets before older messages are summarized; null: only by `/compact`",
        least=0.1,
        most=1,
    )
    compact_model: str = option(
        "", "Model that writes the summary: MODEL, a name in `servers`, or SERVER:MODEL; empty: the one that answers"
    )
    compact_directives: str = option("", "What every summary must heed, e.g. `Keep each figure with its unit.`")
    retain_last_turns: int | None = option(
        None,
        "Turns that a summary leaves as they are, if they take half of the context at most; null: as many as take a "
        "quarter of it",
        least=1,
    )


@dataclass(frozen=True, slots=True)
class WorkspaceSettings:
    """The folder that tools work in."""

    dir: str = option(".", "Folder the tools work in; relative to the current folder")
    add_dirs: tuple[str, ...] = option(
        (), "Further folders in which tools read and write as in the workspace; see docs/security.md"
    )
    max_file_size_mb: float = option(
        10.0, "Largest file that may be read whole, written or edited, in MB", least=0.001, most=1e4
    )
    agents_md: bool = option(
        True, "Give the model `AGENTS.md`, or `CLAUDE.md`, of the workspace and the folders above, and your own"
    )

    @property
    def max_file_bytes(self) -> int:
        return int(self.max_file_size_mb * 1_000_000)


@dataclass(frozen=True, slots=True)
class ToolSettings:
    """Where more tools come from."""

    modules: tuple[str, ...] = option((), "Python files with your own tools; see docs/writing-tools.md")
    commands: tuple[str, ...] = option((), "YAML files that define commands as tools; see docs/writing-tools.md")
    mcp: tuple[Mapping[str, Any], ...] = option(
        (),
        'MCP servers to take tools from, e.g. `{"name": "files", "command": ["mcp-files", "."]}`; outside the sandbox',
    )
    search: str = option(
        "auto",
        "Whether prompts only name the tools of MCP servers, whose definitions the model then searches for: always, "
        "never, or auto, where the definitions would take more than 10 % of the context",
        choices=("auto", "always", "never"),
    )


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """What may run without being asked about, and in which sandbox."""

    exec_enabled: bool = option(True, "Whether commands may run at all")
    exec_timeout: float = option(120.0, "Time limit for a command, in seconds", least=0.1, most=WEEK_S)
    exec_max_timeout: float | None = option(
        None,
        "Longest time limit that a call may name, in seconds; null: `exec_timeout` where that is set, else 3600",
        least=0.1,
        most=WEEK_S,
    )
    exec_max_output: int = option(
        30_000, "Longest output of a command, in characters; the middle of a longer one is cut", least=100
    )
    exec_memory_mb: int = option(8192, "Memory limit for each process of a command, in MB", least=16, most=10**7)
    exec_processes: int = option(1024, "Most processes a command may have, including threads", least=8, most=10**6)
    exec_file_size_mb: int = option(4096, "Largest file a command may write, in MB", least=1, most=10**7)
    sandbox: str = option(
        "auto",
        "Sandbox for commands: auto, the best one that works; required: none works, none runs; off: no sandbox",
        choices=("auto", "required", "off"),
    )
    container_image: str = option(
        "", "Image of podman or docker in whose containers commands run, in place of the sandbox; see docs/batch.md"
    )
    container_runtime: str = option(
        "auto", "What runs them: auto, the first that is installed", choices=("auto", "podman", "docker")
    )
    container_cpus: float = option(0.0, "Processors that a container may use; 0: all", least=0, most=1024)
    sandbox_network: bool = option(False, "Whether commands in the sandbox may use the network")
    sandbox_read: tuple[str, ...] = option((), "More files and folders that commands in the sandbox may read")
    environment: tuple[str, ...] = option(
        (), "More variables that commands get, by name; never one whose value is a key in use or looks like a secret"
    )
    mode: str = option(
        "",
        "What may run without asking: plan, ask, edits, auto, full; empty: as `security.profile` says",
        choices=("", *MODES),
    )
    profile: str = option(
        "ask",
        "The mode by its former name: read-only (plan), ask, workspace (edits), full",
        choices=PROFILE_MODES,
    )
    rules: tuple[Mapping[str, Any], ...] = option(
        (),
        'What may run, e.g. `{"tool": "exec", "command": "git status", "action": "allow"}`; deny beats ask beats allow',
    )
    allowed_commands: tuple[str, ...] = option(
        (), "Commands that run without asking, by their first words, e.g. `git status`"
    )

    @property
    def mode_in_force(self) -> str:
        return self.mode or PROFILE_MODES[self.profile]


@dataclass(frozen=True, slots=True)
class HookSettings:
    """The user's programs that are told of calls."""

    before_call: tuple[Mapping[str, Any], ...] = option(
        (),
        'Your programs that may deny a call or have it ask, e.g. `{"command": ["guard.py"], "tools": ["exec"]}`; '
        "outside the sandbox",
    )
    after_call: tuple[Mapping[str, Any], ...] = option(
        (), "Your programs that get each result, and may add a note for the model; outside the sandbox"
    )
    turn_end: tuple[Mapping[str, Any], ...] = option(
        (), "Your programs that get each answer at its end; outside the sandbox"
    )


@dataclass(frozen=True, slots=True)
class ReviewSettings:
    """The models that review calls."""

    models: tuple[Mapping[str, Any], ...] = option(
        (),
        "Models that vote on a call before it runs; each has `model` and `base_url`, `provider` or "
        "`server`, a name in `servers`; it may have `api_key`",
        secret=True,
    )
    rule: str = option(
        "majority", "How many must approve: majority, unanimous, any", choices=("majority", "unanimous", "any")
    )
    on: str = option(
        "high",
        "What they vote on: high, all high-risk calls; ask, only those you would be asked about",
        choices=("high", "ask"),
    )
    timeout: float = option(120.0, "Longest wait for all reviewers, in seconds", least=0.1, most=WEEK_S)
    chair: str = option("", "Model of `models` that sums up what a panel answers; empty: the one of the chat")


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """The gateway."""

    listen: str = option("127.0.0.1:8010", "Where the gateway listens, HOST:PORT")
    upstreams: tuple[str, ...] = option((), "Servers behind the gateway; empty: `vllm.base_url`")
    keys: str = option("", "File with the digests of the keys of clients; see docs/serve.md")
    request_log: str = option("", "File for a line of JSON about each request, `-`: standard output; empty: none")
    workers: int = option(1, "Processes that share the port", least=1, most=256)
    repair_turns: int = option(1, "How often a call that cannot be read is asked for again", least=0, most=3)
    keep_alive: float = option(10.0, "Longest silence in a stream, in seconds; 0: any", least=0, most=WEEK_S)
    guards: tuple[str, ...] = option(DEFAULT_GUARDS, f"What is mended in answers, some of: {', '.join(GUARDS)}")
    restore: bool = option(True, "Put back what clients drop of answers: thoughts, ids and the exact text of calls")
    record: str = option("", "File that gets each call of the APIs as a line, with its texts; empty: nothing is kept")
    record_redact: bool = option(False, "Leave secrets, token ids and the server's own words out of the record")
    record_keys: tuple[str, ...] = option((), "Names of the keys whose calls are recorded; empty: all")
    record_max_mb: float = option(
        100.0, "Size of the record at which a new file is begun, in MB", least=0.001, most=1e5
    )
    record_files: int = option(5, "Files of the record that are kept, the newest included", least=1, most=1000)
    hosts: tuple[str, ...] = option((), "Names under which the gateway may be called without keys, besides loopback's")
    origins: tuple[str, ...] = option((), "Origins whose pages may ask, such as `https://chat.example`")
    relay: tuple[str, ...] = option((), "Paths that change the server and are relayed all the same, such as `/sleep`")


@dataclass(frozen=True, slots=True)
class SystemPromptSettings:
    """What the system prompt says."""

    role: str = option("You are a helpful assistant in a terminal.", "What the model is told it is")
    workspace_note: str = option(
        "Your files are in {workspace}. Paths are relative to it, and nothing outside it can be reached.",
        "What the model is told about the workspace; here and in the others `{workspace}` becomes its path",
    )
    tools_note: str = option(
        "Use the tools to look and to act, rather than guessing or asking the user to do it.",
        "What the model is told about tools in general",
    )
    environment: bool = option(True, "Tell the model the date, the system, the git branch and what the sandbox does")


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """The chat in the terminal."""

    theme: str = option(
        "auto",
        "Colours for a light or a dark background; auto: as the terminal says",
        choices=("auto", "light", "dark"),
    )
    notify: bool = option(
        True, "Call you, with a desktop notification or the bell, when an answer or a question took over ten seconds"
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, and where each comes from."""

    vllm: VllmSettings = field(default_factory=VllmSettings)
    text_protocol: TextProtocolSettings = field(default_factory=TextProtocolSettings)
    agent: AgentSettings = field(default_factory=AgentSettings)
    workspace: WorkspaceSettings = field(default_factory=WorkspaceSettings)
    tools: ToolSettings = field(default_factory=ToolSettings)
    security: SecuritySettings = field(default_factory=SecuritySettings)
    hooks: HookSettings = field(default_factory=HookSettings)
    review: ReviewSettings = field(default_factory=ReviewSettings)
    serve: ServeSettings = field(default_factory=ServeSettings)
    chat: ChatSettings = field(default_factory=ChatSettings)
    system_prompt: SystemPromptSettings = field(default_factory=SystemPromptSettings)
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # pattern -> values of `vllm` for such models
    servers: Mapping[str, VllmSettings] = field(default_factory=dict)  # by name; `vllm` is among them under MAIN_SERVER
    server: str = ""  # the name of the one that `vllm` holds; empty where none have names
    root: Path = field(default_factory=Path.cwd)  # the workspace, resolved once
    added: tuple[Path, ...] = ()  # the folders of workspace.add_dirs, resolved
    state: Path = field(default_factory=lambda: get_state_folder(os.environ))  # the program's own data
    files: tuple[Path, ...] = ()  # the settings files, existing or not: tools may not write them
    places: Mapping[str, str] = field(default_factory=dict)  # of the keys that were given

    @property
    def is_server_named(self) -> bool:
        """Whether the address is not merely the default one, which a copy of all defaults has too."""
        place = self.places.get("vllm.base_url", "")
        return (
            self.server not in ("", MAIN_SERVER)
            or self.vllm.base_url != BASE_URLS["vllm"]
            or place.startswith(("command line", "environment", "argument"))
        )

    @property
    def longest_timeout(self) -> float:
        """The longest that a call may name, in seconds: a limit that the user has set is not exceeded."""
        if self.security.exec_max_timeout is not None:
            return self.security.exec_max_timeout
        return self.security.exec_timeout if "security.exec_timeout" in self.places else MAX_TIMEOUT_S

    @property
    def key_to_send(self) -> str:
        """The API key; empty for a server that was not named, as any program may listen at the default address."""
        return self.vllm.api_key if self.is_server_named else ""

    @property
    def headers_to_send(self) -> Mapping[str, str]:
        """The headers, which may hold keys; none for a server that was not named."""
        return self.vllm.headers if self.is_server_named else {}

    @property
    def server_models(self) -> Mapping[str, str]:
        """The model that each of `servers` names; empty where it names none."""
        return {name: vllm.model for name, vllm in self.servers.items()}

    @property
    def keys(self) -> list[str]:
        """The secrets in use: the API keys of the servers and the reviewers, and what headers hold of that kind."""
        servers = [self.vllm, *self.servers.values()]
        headers = [each for server in servers for name, each in server.headers.items() if is_secret_header(name)]
        return [
            *(server.api_key for server in servers),
            *(str(each.get("api_key", "")) for each in self.review.models),
            *headers,
            *(each.rpartition(" ")[2] for each in headers),  # without `Bearer`
        ]

    def get_model_settings(self, model: str) -> VllmSettings:
        """Those of the server, with what the entries of `models` say of this one; the last one wins."""
        given: dict[str, Any] = {}
        for pattern, values in self.models.items():
            if fnmatchcase(model, pattern):
                given |= values
        given = {
            name: value
            for name, value in given.items()
            if not self.places.get(f"vllm.{name}", "").startswith("command line")
        }
        return replace(self.vllm, **given)

    def with_model_values(self, model: str, values: Mapping[str, Any]) -> "Settings":
        """The same with these values of `vllm` for one model; they win over those of its patterns."""
        name = "".join(f"[{char}]" if char in "*?[" else char for char in model)
        rest = {pattern: entry for pattern, entry in self.models.items() if pattern != name}
        return replace(self, models={**rest, name: {**self.models.get(name, {}), **values}})

    def with_server(self, name: str) -> "Settings":
        """The same with another of `servers`."""
        return replace(self, vllm=self.servers[name], server=name)

    def with_model(self, text: str) -> "Settings":
        """The same with another model. `text`: MODEL, SERVER or SERVER:MODEL."""
        name, _, model = text.partition(":")
        if name in self.servers:
            there = self.with_server(name)
            return replace(there, vllm=replace(there.vllm, model=model)) if model else there
        return replace(self, vllm=replace(self.vllm, model=text))


MAX_TIMEOUT_S = 3600.0  # that a call may name, if nothing is set
MAIN_SERVER = "vllm"  # names the section `vllm` among `servers`
SECTIONS: Mapping[str, Any] = {
    each.name: each.default_factory
    for each in fields(Settings)
    if hasattr(each.default_factory, "__dataclass_fields__")
}


def is_secret_header(name: str) -> bool:
    return any(word in name.lower() for word in ("auth", "key", "token", "secret", "cookie"))
