"""What is found out about a server before a request on a path, whoever asks. Sans-IO.

Each is asked for once for a model on a server, and only for a request that needs it. What the server does not tell
stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from ..providers.base import ChatRequest
from ..types.effects import Aside
from ..types.messages import Message
from .call_gap import GAP_PROBE, read_gap
from .call_path import GRAMMAR_FIELD, THOUGHTS_FIELD, CallPath, Reason
from .evidence import probe_late_system
from .facts import FactStore, ServedModel
from .formats.written_format import PROBE, detect_format
from .server import ServerApi
from .thoughts import PLAIN_PROBE, THOUGHT_PROBE, probe_thoughts


class PathLearner(Struct, frozen=True):
    """Of `served`, of which `facts` are known, asked at `server`.

    `make_probe`: the request that these messages make with PROBE_TOOL on this path.
    """

    server: ServerApi
    facts: FactStore
    served: ServedModel
    make_probe: Callable[[Sequence[Message], CallPath], ChatRequest]

    def learn_history(
        self, path: CallPath, thoughts: Iterable[bool], gaps: Iterable[bool], *, has_late_system: bool = False
    ) -> Aside[CallPath]:
        """The path with what the template makes of a history; itself where this history needs nothing of that.

        `thoughts`: of each message, whether it has earlier thoughts that go back only where the template shows them.
        `gaps`: whether it has calls behind a text that ends in blanks. `has_late_system`: a system message is not the
        first message.
        """
        if has_late_system and not path.system_first:
            late_system = self.facts.late_system
            if late_system.get(self.served) is None:
                is_in_place = yield from probe_late_system(self.server, self.served.model)
                # Where it is not told, a refusal may.
                late_system.update(self.served, lambda _: is_in_place is not False)
            path = replace(path, system_first=late_system.get(self.served) is False)
        if path.shows_thoughts is None and any(thoughts):
            path = yield from self._learn_thoughts(path)
        if path.call_gap is None and path.sends_calls and any(gaps):
            text = yield from self.server.show_prompt(self.make_probe(GAP_PROBE, path))
            path = replace(path, call_gap=read_gap(text or ""))
        return path

    def learn_format(self, path: CallPath) -> Aside[CallPath]:
        """The path with the format in which the model writes calls, once its template is in use.

        Of calls that are to be held to a grammar: the format concerns nothing else.
        """
        is_in_use = path.prompt_style == "template" and (path.mode == "template" or path.proven)
        if not is_in_use or path.written_format or GRAMMAR_FIELD in path.disabled_fields:
            return path
        return replace(path, written_format=(yield from detect_format(self.server, self.make_probe(PROBE, path))))

    def _learn_thoughts(self, path: CallPath) -> Aside[CallPath]:
        """The path with whether the template shows thoughts. Of a path for one turn it would be asked each time."""
        is_for_one_turn = path.reason is Reason.PARSER_FAILED
        if path.mode == "tokens" or is_for_one_turn or THOUGHTS_FIELD in path.disabled_fields:
            return path
        if self.facts.untold_thoughts.get(self.served):
            return path
        probes = (self.make_probe(each, path) for each in (THOUGHT_PROBE, PLAIN_PROBE))
        shows = yield from probe_thoughts(self.server, *probes)
        self.facts.untold_thoughts.update(self.served, lambda _: shows is None)
        return replace(path, shows_thoughts=shows)
