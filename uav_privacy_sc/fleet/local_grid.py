"""Flower's grid in one process: messages go to the client app one by one, without Ray or a network."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import uuid4

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

#: Flower's code of an error in a client app.
_APP_FAILED = 2
#: What Flower calls the server's node.
SERVER_NODE = 1


class LocalGrid(Grid):
    """Calls ``client_app`` for every message when its reply is asked for; node ``n`` is client ``n - 2``."""

    def __init__(self, client_app: ClientApp, clients: int) -> None:
        # Who this process is to Flower goes into every message; its simulation says the same of itself.
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, 1, SERVER_NODE
        self._app = client_app
        self._contexts = {
            number + 2: Context(1, number + 2, {"partition-id": number, "num-partitions": clients}, RecordDict(), {})
            for number in range(clients)
        }
        self._sent: dict[str, Message] = {}

    def set_run(self, run: object) -> None:
        """Do nothing: there is one run."""

    @property
    def run(self) -> object:  # type: ignore[override]
        """There is no record of the run."""
        return None

    def create_message(self, *arguments: object, **named: object) -> Message:  # type: ignore[override]
        """Refuse: Flower has given it up for ``Message``."""
        raise NotImplementedError("make a Message instead")

    def get_node_ids(self) -> Iterable[int]:
        """Return the numbers of all nodes."""
        return list(self._contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Take messages and return their identities."""
        found = []
        for message in messages:
            identity = str(uuid4())
            message.metadata.__dict__["_message_id"] = identity
            self._sent[identity] = message
            found.append(identity)
        return found

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Let the client of the first of these messages work, and return its reply."""
        for identity in message_ids:
            if (message := self._sent.pop(identity, None)) is not None:
                return [self._reply(message)]
        return []

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Send messages and return the replies to all of them."""
        return [reply for identity in list(self.push_messages(messages)) for reply in self.pull_messages([identity])]

    def _reply(self, message: Message) -> Message:
        context = self._contexts[message.metadata.dst_node_id]
        try:
            return self._app(message, context)
        except Exception as error:  # as Flower's own runtimes: what an app raises is told to the server
            return Message(Error(_APP_FAILED, f"{type(error).__name__}: {error}"), reply_to=message)
