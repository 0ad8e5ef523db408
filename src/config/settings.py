"""The settings: each key with its default, its meaning and its limits.

Tests compare docs/configuration.md with this file. Annotations are types here, not text, because
load.py looks up how a field is read by its type.
"""

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

from msgspec import Struct, field
from msgspec.structs import replace

from .locations import get_state_folder

MODES = ("plan", "ask", "edits", "auto", "full")  # src/security/permissions/modes.py says what each allows
PROFILE_MODES: Mapping[str, str] = {"read-only": "plan", "ask": "ask", "workspace": "edits", "full": "full"}
CALL_PATHS = ("tokens", "native", "template", "text")  # src/negotiation/call_path.py says what each does
GUARDS = ("fit", "empty", "form", "unknown", "announced", "loops")  # docs/serve.md says what each does
DEFAULT_GUARDS = ("fit", "empty", "form")
HIDDEN = "(set)"  # in place of a secret
WEEK_S = 7 * 24 * 3600.0  # the longest wait; the system's clocks cannot hold every number


class Option(Struct, frozen=True):
    """What is said of a field that a user may set: its meaning, the limits of a number, and the choices for a word.

    `secret`: its value is not shown. `secret_parts`: in each object of a list, the keys whose values are not shown.
    `per_model`: an entry of `models` may set it for the models that it names.
    """

    about: str
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    secret: bool = False
    per_model: bool = False
    secret_parts: tuple[str, ...] = ()

    def hide(self, value: Any) -> Any:
        """The value as it may be shown."""
        if value and self.secret:
            return HIDDEN
        if not self.secret_parts:
            return value
        return tuple({**row, **dict.fromkeys(filter(row.get, self.secret_parts), HIDDEN)} for row in value)


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


class Section(Struct, frozen=True):
    """A part of the settings, each field of which is annotated with an Option. Secrets are not shown."""

    def __repr__(self) -> str:
        options = {name: hint.__metadata__[0] for name, hint in type(self).__annotations__.items()}
        shown = {name: option.hide(getattr(self, name)) for name, option in options.items() if not option.secret}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


class VllmSettings(Section, frozen=True):
    """The server, its model, and how it is asked."""

    provider: Annotated[
        str, Option(f"Whose API the server speaks: {', '.join(BASE_URLS)}", choices=tuple(BASE_URLS))
    ] = "vllm"
    base_url: Annotated[str, Option("Address of the server, including `/v1`; default: the provider's own")] = BASE_URLS[
        "vllm"
    ]
    model: Annotated[str, Option("Model to use; empty: `default_model_index` decides, else the server is asked")] = ""
    api_key: Annotated[str, Option("API key; better kept in `VLLM_API_KEY`", secret=True)] = ""
    temperature: Annotated[
        float | None,
        Option("Sampling temperature; null, here and below: the server's default", least=0, per_model=True),
    ] = None
    max_tokens: Annotated[
        int | None, Option("Longest answer, in tokens; null: whatever the context allows", least=1, per_model=True)
    ] = None
    top_p: Annotated[
        float | None,
        Option("Sample from the likeliest tokens with this total probability", least=0, most=1, per_model=True),
    ] = None
    top_k: Annotated[
        int | None, Option("Sample from this many of the likeliest tokens; -1: all", least=-1, per_model=True)
    ] = None
    min_p: Annotated[
        float | None,
        Option("Sample from tokens at least this likely, beside the likeliest", least=0, most=1, per_model=True),
    ] = None
    presence_penalty: Annotated[
        float | None, Option("Lowers tokens that have occurred in the answer", least=-2, most=2, per_model=True)
    ] = None
    frequency_penalty: Annotated[
        float | None,
        Option("Lowers tokens by how often they have occurred in the answer", least=-2, most=2, per_model=True),
    ] = None
    repetition_penalty: Annotated[
        float | None,
        Option("Divides the scores of tokens that have occurred; above 1 lowers them", least=0, per_model=True),
    ] = None
    seed: Annotated[int | None, Option("Seed of the sampling", per_model=True)] = None
    stop: Annotated[tuple[str, ...], Option("Texts that end the answer", per_model=True)] = ()
    reasoning_effort: Annotated[
        str,
        Option(
            "How much a reasoning model thinks, e.g. low, medium or high; empty: the server's default", per_model=True
        ),
    ] = ""
    chat_template_kwargs: Annotated[
        Mapping[str, Any],
        Option('What the model\'s chat template is given, e.g. `{"enable_thinking": false}`', per_model=True),
    ] = {}
    extra_body: Annotated[
        Mapping[str, Any],
        Option(
            "More fields of each request, as the server names them; they override the settings above", per_model=True
        ),
    ] = {}
    headers: Annotated[Mapping[str, str], Option("HTTP headers sent with each request", secret=True)] = {}
    available_models: Annotated[tuple[str, ...], Option("Models to choose from")] = ()
    default_model_index: Annotated[int, Option("Which of `available_models` to use, counting from 0", least=0)] = 0
    enable_function_calling: Annotated[
        bool, Option("Send `tools` to the server; false: have the model write calls as text", per_model=True)
    ] = True
    paths: Annotated[
        tuple[str, ...],
        Option("How tools are offered, in order of preference; what the server refuses is left out", per_model=True),
    ] = CALL_PATHS
    strict_tools: Annotated[
        bool, Option("Have the server constrain native calls to their schemas where it can", per_model=True)
    ] = True
    stream: Annotated[
        bool, Option("Stream answers; false: fetch them whole, for servers that lose parts of a stream", per_model=True)
    ] = True
    recover_parser_errors: Annotated[
        bool,
        Option(
            "Ask once more, with calls as text, where the server's parser made an error of an answer", per_model=True
        ),
    ] = True
    send_thoughts: Annotated[
        str,
        Option(
            "Send a model its earlier thoughts; auto: unless its chat template shows none",
            choices=("auto", "always", "never"),
            per_model=True,
        ),
    ] = "auto"
    diagnostics: Annotated[
        bool,
        Option(
            "Tell the model what the project's own checkers say of files that it changed, in folders that you trust",
            per_model=True,
        ),
    ] = True
    timeout: Annotated[float, Option("Longest pause within an answer, in seconds", least=0.01, most=WEEK_S)] = 300.0
    connect_timeout: Annotated[float, Option("Longest wait for a connection, in seconds", least=0.01, most=WEEK_S)] = (
        5.0
    )
    first_token_timeout: Annotated[
        float, Option("Longest wait for the first token, in seconds", least=0.01, most=WEEK_S)
    ] = 600.0
    total_timeout: Annotated[float, Option("Longest time for a whole answer, in seconds", least=0.01, most=WEEK_S)] = (
        3600.0
    )
    load_timeout: Annotated[
        float, Option("Longest wait while the server loads its model, in seconds", least=0, most=WEEK_S)
    ] = 300.0
    retries: Annotated[
        int, Option("Retries after a failure, as long as nothing of the answer has been shown", least=0)
    ] = 2
    ssl_verify: Annotated[bool | str, Option("Check TLS certificates: true, false, or the path of a CA file (PEM)")] = (
        True
    )


class TextProtocolSettings(Section, frozen=True):
    """How calls are written where the server reads none."""

    constrained: Annotated[
        str,
        Option(
            "Have vLLM allow only a valid call after `TOOL_CALL:`, or after what begins one in the model's own format; "
            "auto: if it can; on: require it",
            choices=("auto", "on", "off"),
        ),
    ] = "auto"


class AgentSettings(Section, frozen=True):
    """The limits of an agent, and how its conversation is summarized."""

    max_tool_turns: Annotated[
        int,
        Option(
            "Turns with tool calls before the model must answer; in the chat only where it is set, and you are asked",
            least=1,
        ),
    ] = 10
    finish_announced: Annotated[
        bool, Option("Ask the model once more where an answer behind results ends in what it is about to do")
    ] = False
    max_parallel_calls: Annotated[int, Option("How many low-risk calls may run at the same time", least=1, most=64)] = 4
    compact_at: Annotated[
        float | None,
        Option(
            "How full the context gets before older messages are summarized; null: only by `/compact`",
            least=0.1,
            most=1,
        ),
    ] = 0.85
    compact_model: Annotated[
        str,
        Option(
            "Model that writes the summary: MODEL, a name in `servers`, or SERVER:MODEL; empty: the one that answers"
        ),
    ] = ""
    compact_directives: Annotated[
        str, Option("What every summary must heed, e.g. `Keep each figure with its unit.`")
    ] = ""
    retain_last_turns: Annotated[
        int | None,
        Option(
            "Turns that a summary leaves as they are, if they take half of the context at most; null: as many as take "
            "a quarter of it",
            least=1,
        ),
    ] = None


class WorkspaceSettings(Section, frozen=True):
    """The folder that tools work in."""

    dir: Annotated[str, Option("Folder the tools work in; relative to the current folder")] = "."
    add_dirs: Annotated[
        tuple[str, ...],
        Option("Further folders in which tools read and write as in the workspace; see docs/security.md"),
    ] = ()
    max_file_size_mb: Annotated[
        float, Option("Largest file that may be read whole, written or edited, in MB", least=0.001, most=1e4)
    ] = 10.0
    agents_md: Annotated[
        bool, Option("Give the model `AGENTS.md`, or `CLAUDE.md`, of the workspace and the folders above, and your own")
    ] = True

    @property
    def max_file_bytes(self) -> int:
        return int(self.max_file_size_mb * 1_000_000)


class ToolSettings(Section, frozen=True):
    """Where more tools come from."""

    modules: Annotated[tuple[str, ...], Option("Python files with your own tools; see docs/writing-tools.md")] = ()
    commands: Annotated[
        tuple[str, ...], Option("YAML files that define commands as tools; see docs/writing-tools.md")
    ] = ()
    mcp: Annotated[
        tuple[Mapping[str, Any], ...],
        Option(
            'MCP servers to take tools from, e.g. `{"name": "files", "command": ["mcp-files", "."]}`; outside the '
            "sandbox",
            secret_parts=("env", "headers"),
        ),
    ] = ()
    search: Annotated[
        str,
        Option(
            "Whether prompts only name the tools of MCP servers, whose definitions the model then searches for: "
            "always, never, or auto, where the definitions would take more than 10 % of the context",
            choices=("auto", "always", "never"),
        ),
    ] = "auto"


class SecuritySettings(Section, frozen=True):
    """What may run without being asked about, and in which sandbox."""

    exec_enabled: Annotated[bool, Option("Whether commands may run at all")] = True
    exec_timeout: Annotated[float, Option("Time limit for a command, in seconds", least=0.1, most=WEEK_S)] = 120.0
    exec_max_timeout: Annotated[
        float | None,
        Option(
            "Longest time limit that a call may name, in seconds; null: `exec_timeout` where that is set, else 3600",
            least=0.1,
            most=WEEK_S,
        ),
    ] = None
    exec_max_output: Annotated[
        int, Option("Longest output of a command, in characters; the middle of a longer one is cut", least=100)
    ] = 30_000
    exec_memory_mb: Annotated[
        int, Option("Memory limit for each process of a command, in MB", least=16, most=10**7)
    ] = 8192
    exec_processes: Annotated[
        int, Option("Most processes a command may have, including threads", least=8, most=10**6)
    ] = 1024
    exec_file_size_mb: Annotated[int, Option("Largest file a command may write, in MB", least=1, most=10**7)] = 4096
    sandbox: Annotated[
        str,
        Option(
            "Sandbox for commands: auto, the best one that works; required: none works, none runs; off: no sandbox",
            choices=("auto", "required", "off"),
        ),
    ] = "auto"
    container_image: Annotated[
        str,
        Option(
            "Image of podman or docker in whose containers commands run, in place of the sandbox; see docs/batch.md"
        ),
    ] = ""
    container_runtime: Annotated[
        str, Option("What runs them: auto, the first that is installed", choices=("auto", "podman", "docker"))
    ] = "auto"
    container_cpus: Annotated[float, Option("Processors that a container may use; 0: all", least=0, most=1024)] = 0.0
    sandbox_network: Annotated[bool, Option("Whether commands in the sandbox may use the network")] = False
    sandbox_read: Annotated[
        tuple[str, ...], Option("More files and folders that commands in the sandbox may read")
    ] = ()
    environment: Annotated[
        tuple[str, ...],
        Option(
            "More variables that commands get, by name; never one whose value is a key in use or looks like a secret"
        ),
    ] = ()
    mode: Annotated[
        str,
        Option(
            "What may run without asking: plan, ask, edits, auto, full; empty: as `security.profile` says",
            choices=("", *MODES),
        ),
    ] = ""
    profile: Annotated[
        str,
        Option(
            "The mode by its former name: read-only (plan), ask, workspace (edits), full", choices=tuple(PROFILE_MODES)
        ),
    ] = "ask"
    rules: Annotated[
        tuple[Mapping[str, Any], ...],
        Option(
            'What may run, e.g. `{"tool": "exec", "command": "git status", "action": "allow"}`; deny beats ask '
            "beats allow"
        ),
    ] = ()
    allowed_commands: Annotated[
        tuple[str, ...], Option("Commands that run without asking, by their first words, e.g. `git status`")
    ] = ()

    @property
    def mode_in_force(self) -> str:
        return self.mode or PROFILE_MODES[self.profile]


class HookSettings(Section, frozen=True):
    """The user's programs that are told of calls."""

    before_call: Annotated[
        tuple[Mapping[str, Any], ...],
        Option(
            'Your programs that may deny a call or have it ask, e.g. `{"command": ["guard.py"], "tools": ["exec"]}`; '
            "outside the sandbox"
        ),
    ] = ()
    after_call: Annotated[
        tuple[Mapping[str, Any], ...],
        Option("Your programs that get each result, and may add a note for the model; outside the sandbox"),
    ] = ()
    turn_end: Annotated[
        tuple[Mapping[str, Any], ...], Option("Your programs that get each answer at its end; outside the sandbox")
    ] = ()


class ReviewSettings(Section, frozen=True):
    """The models that review calls."""

    models: Annotated[
        tuple[Mapping[str, Any], ...],
        Option(
            "Models that vote on a call before it runs; each has `model` and `base_url`, `provider` or "
            "`server`, a name in `servers`; it may have `api_key`",
            secret=True,
        ),
    ] = ()
    rule: Annotated[
        str, Option("How many must approve: majority, unanimous, any", choices=("majority", "unanimous", "any"))
    ] = "majority"
    on: Annotated[
        str,
        Option(
            "What they vote on: high, all high-risk calls; ask, only those you would be asked about",
            choices=("high", "ask"),
        ),
    ] = "high"
    timeout: Annotated[float, Option("Longest wait for all reviewers, in seconds", least=0.1, most=WEEK_S)] = 120.0
    chair: Annotated[str, Option("Model of `models` that sums up what a panel answers; empty: the one of the chat")] = (
        ""
    )


class ServeSettings(Section, frozen=True):
    """The gateway."""

    listen: Annotated[str, Option("Where the gateway listens, HOST:PORT")] = "127.0.0.1:8010"
    upstreams: Annotated[tuple[str, ...], Option("Servers behind the gateway; empty: `vllm.base_url`")] = ()
    keys: Annotated[str, Option("File with the digests of the keys of clients; see docs/serve.md")] = ""
    request_log: Annotated[
        str, Option("File for a line of JSON about each request, `-`: standard output; empty: none")
    ] = ""
    workers: Annotated[int, Option("Processes that share the port", least=1, most=256)] = 1
    repair_turns: Annotated[int, Option("How often a call that cannot be read is asked for again", least=0, most=3)] = 1
    keep_alive: Annotated[float, Option("Longest silence in a stream, in seconds; 0: any", least=0, most=WEEK_S)] = 10.0
    guards: Annotated[tuple[str, ...], Option(f"What is mended in answers, some of: {', '.join(GUARDS)}")] = (
        DEFAULT_GUARDS
    )
    restore: Annotated[
        bool, Option("Put back what clients drop of answers: thoughts, ids and the exact text of calls")
    ] = True
    record: Annotated[
        str, Option("File that gets each call of the APIs as a line, with its texts; empty: nothing is kept")
    ] = ""
    record_redact: Annotated[bool, Option("Leave secrets, token ids and the server's own words out of the record")] = (
        False
    )
    record_keys: Annotated[tuple[str, ...], Option("Names of the keys whose calls are recorded; empty: all")] = ()
    record_max_mb: Annotated[
        float, Option("Size of the record at which a new file is begun, in MB", least=0.001, most=1e5)
    ] = 100.0
    record_files: Annotated[
        int, Option("Files of the record that are kept, the newest included", least=1, most=1000)
    ] = 5
    hosts: Annotated[
        tuple[str, ...], Option("Names under which the gateway may be called without keys, besides loopback's")
    ] = ()
    origins: Annotated[tuple[str, ...], Option("Origins whose pages may ask, such as `https://chat.example`")] = ()
    relay: Annotated[
        tuple[str, ...],
        Option("Paths that are relayed besides those of clients, with all below them, such as `/sleep`"),
    ] = ()


class SystemPromptSettings(Section, frozen=True):
    """What the system prompt says."""

    role: Annotated[str, Option("What the model is told it is")] = "You are a helpful assistant in a terminal."
    workspace_note: Annotated[
        str, Option("What the model is told about the workspace; here and in the others `{workspace}` becomes its path")
    ] = "Your files are in {workspace}. Paths are relative to it, and nothing outside it can be reached."
    tools_note: Annotated[str, Option("What the model is told about tools in general")] = (
        "Use the tools to look and to act, rather than guessing or asking the user to do it."
    )
    environment: Annotated[
        bool, Option("Tell the model the date, the system, the git branch and what the sandbox does")
    ] = True


class ChatSettings(Section, frozen=True):
    """The chat in the terminal."""

    theme: Annotated[
        str,
        Option(
            "Colours for a light or a dark background; auto: as the terminal says", choices=("auto", "light", "dark")
        ),
    ] = "auto"
    notify: Annotated[
        bool,
        Option("Call you, with a desktop notification or the bell, when an answer or a question took over ten seconds"),
    ] = True


class Settings(Struct, frozen=True):
    """All settings, and where each comes from."""

    vllm: VllmSettings = VllmSettings()
    text_protocol: TextProtocolSettings = TextProtocolSettings()
    agent: AgentSettings = AgentSettings()
    workspace: WorkspaceSettings = WorkspaceSettings()
    tools: ToolSettings = ToolSettings()
    security: SecuritySettings = SecuritySettings()
    hooks: HookSettings = HookSettings()
    review: ReviewSettings = ReviewSettings()
    serve: ServeSettings = ServeSettings()
    chat: ChatSettings = ChatSettings()
    system_prompt: SystemPromptSettings = SystemPromptSettings()
    models: Mapping[str, Mapping[str, Any]] = {}  # pattern -> values of `vllm` for such models
    servers: Mapping[str, VllmSettings] = {}  # by name; `vllm` is among them under MAIN_SERVER
    server: str = ""  # the name of the one that `vllm` holds; empty where none have names
    root: Path = field(default_factory=Path.cwd)  # the workspace, resolved once
    added: tuple[Path, ...] = ()  # the folders of workspace.add_dirs, resolved
    state: Path = field(default_factory=lambda: get_state_folder(os.environ))  # the program's own data
    files: tuple[Path, ...] = ()  # the settings files, existing or not: tools may not write them
    places: Mapping[str, str] = {}  # of the keys that were given

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
        overrides: dict[str, Any] = {}
        for pattern, values in self.models.items():
            if fnmatchcase(model, pattern):
                overrides |= values
        overrides = {
            name: value
            for name, value in overrides.items()
            if not self.places.get(f"vllm.{name}", "").startswith("command line")
        }
        return replace(self.vllm, **overrides)

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
SECTIONS: Mapping[str, type[Section]] = {
    name: kind
    for name, kind in Settings.__annotations__.items()
    if isinstance(kind, type) and issubclass(kind, Section)
}


def is_secret_header(name: str) -> bool:
    return any(word in name.lower() for word in ("auth", "key", "token", "secret", "cookie"))
