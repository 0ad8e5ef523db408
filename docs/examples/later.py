"""An approval that waits: the run ends at the call, is stored as data, and goes on in another process.

Ask with `python later.py chat.json "Tell Ann that it rains."`, answer days later with `python later.py chat.json yes`.
"""

import sys
from pathlib import Path

from vllm_bot import LATER, Answer, Conversation, Request, Server, tool

URL = "http://localhost:8000/v1"


@tool
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent to {to}: {text}"


def wait(request: Request) -> Answer:
    print(f"waits for yes or no: {request.call.name} {dict(request.call.arguments)}")
    return LATER


def main(name: str, said: str, url: str = URL) -> None:
    file = Path(name)
    stored = Conversation.from_json(file.read_bytes()) if file.exists() else None
    with Server(url) as server:
        agent = server.agent([send_mail], approve=wait, conversation=stored)
        if agent.pending:
            run = agent.resume({call.id: said == "yes" for call in agent.pending})
        else:
            run = agent.ask(said)
        print(run.finish().text)
        file.write_text(agent.conversation.to_json(), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
