"""What the server says to its clients over Flower's grid, and what comes back: in time, late, or not at all."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from flwr.app import ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid

#: How many rounds a late answer is waited for, so that its lag is told.
REMEMBERED_ROUNDS = 5


class FleetStalled(RuntimeError):
    """Too few clients answer; one line with what to do. What was learned up to the last round is kept."""


@dataclass(frozen=True)
class Member:
    """A client that has introduced itself: its node in Flower, and how many pictures it trains on."""

    node: int
    client: int
    samples: int


@dataclass(frozen=True)
class Answer:
    """What came back from a client that was asked in round ``asked``; ``message`` None: nothing, for ``reason``."""

    client: int
    asked: int
    message: Message | None
    reason: str = ""


class Exchange:
    """Asks clients by their number and gathers what they answer.

    Answers are pulled as they come, instead of through ``Grid.send_and_receive``: that one forgets what arrives after
    its timeout, so nobody could tell a client that lags from one that is gone (and it looks every three seconds only).

    Args:
        grid: of Flower, or :class:`LocalGrid`.
        timeout_s: how long answers to one request are waited for.
        tell: takes one line about whatever is worth a log.
        check: called again and again meanwhile; what it raises ends the waiting.
    """

    def __init__(
        self,
        grid: Grid,
        timeout_s: float,
        tell: Callable[[str], None],
        poll_s: float = 0.05,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._check = check
        self._grid, self._timeout_s, self._poll_s, self._tell = grid, timeout_s, poll_s, tell
        self._pending: dict[str, tuple[int, int]] = {}
        self._known: dict[int, int] = {}
        self.members: dict[int, Member] = {}

    def gather(self, expected: int, join_s: float) -> None:
        """Wait until ``expected`` clients have introduced themselves, or ``join_s`` seconds have passed.

        Raises:
            FleetStalled: nobody has come.
        """
        deadline = time.monotonic() + join_s
        while True:
            self._check()
            self.refresh()
            if len(self.members) >= expected or time.monotonic() >= deadline:
                break
            time.sleep(self._poll_s)
        if not self.members:
            raise FleetStalled(f"no client has joined within {join_s:g} s; start its SuperNode, then run this again")
        if len(self.members) < expected:
            self._tell(f"{len(self.members)} of {expected} clients have joined; the others may join later")

    def refresh(self) -> None:
        """Greet nodes that are new and forget those that are gone."""
        nodes = set(self._grid.get_node_ids())
        for node in set(self._known) - nodes:
            client = self._known.pop(node)
            if client in self.members and self.members[client].node == node:
                del self.members[client]
                self._tell(f"client {client}: its node has left")
        fresh = sorted(nodes - set(self._known))
        greeting = RecordDict({"greeting": ConfigRecord({"from": "uav-privacy-sc"})})
        sent = {self._push(Message(greeting, node, MessageType.QUERY)): node for node in fresh}
        for identity, message in self._pull({key for key in sent if key}):
            self._introduce(sent[identity], message)

    def _introduce(self, node: int, message: Message) -> None:
        if message.has_error():
            self._tell(f"node {node} cannot introduce itself: {first_line(message.error.reason)}")
            return
        about = message.content["about"]
        client, samples = int(about["client"]), int(about["samples"])  # type: ignore[call-overload, arg-type, index]
        if client in self.members:
            self._tell(f"client {client}: a second node with this number (partition-id) has joined; it is not asked")
            self._known[node] = -1
            return
        self._known[node] = client
        self.members[client] = Member(node, client, samples)

    def ask(self, orders: Mapping[int, RecordDict], round_number: int) -> Iterator[Answer]:
        """Send each client its order and yield what comes back, late answers to earlier rounds among it."""
        waiting = {}
        for client, order in orders.items():
            if client not in self.members:
                yield Answer(client, round_number, None, "its node has left")
                continue
            node = self.members[client].node
            identity = self._push(Message(order, node, MessageType.TRAIN, group_id=str(round_number)))
            if identity is None:
                yield Answer(client, round_number, None, "its node cannot be reached")
                continue
            waiting[identity] = client
            self._pending[identity] = (client, round_number)
        self._forget(round_number)
        answered: set[str] = set()
        for identity, message in self._pull(set(waiting), self._pending):
            answered.add(identity)
            yield Answer(*self._pending[identity], message)
        for identity in answered:
            del self._pending[identity]
        for identity in waiting.keys() - answered:
            yield Answer(waiting[identity], round_number, None, f"no answer within {self._timeout_s:g} s")

    def _push(self, message: Message) -> str | None:
        identities = list(self._grid.push_messages([message]))
        return identities[0] if identities and identities[0] else None

    def _pull(
        self, wanted: set[str], also: Mapping[str, tuple[int, int]] | None = None
    ) -> Iterator[tuple[str, Message]]:
        """Yield messages with what they reply to until all that is wanted is there, or the time is up."""
        deadline = time.monotonic() + self._timeout_s
        every = set(wanted) | set(also or ())
        left, seen = set(wanted), set[str]()
        while left:
            self._check()
            found = list(self._grid.pull_messages(sorted(every)))
            for message in found:
                identity = message.metadata.reply_to_message_id
                if identity in every or identity in seen:
                    every.discard(identity)  # Flower gives a reply once, and an error from then on
                    seen.add(identity)
                    left.discard(identity)
                    yield identity, message
            if left and time.monotonic() >= deadline:
                return
            if left and not found:
                time.sleep(self._poll_s)

    def _forget(self, round_number: int) -> None:
        old = [key for key, (_, asked) in self._pending.items() if asked < round_number - REMEMBERED_ROUNDS]
        for key in old:
            del self._pending[key]


def first_line(text: str, length: int = 200) -> str:
    """Return what a foreign error says, in one short line, without what Flower's runtime puts around it."""
    words = " ".join(str(text).split())
    found = re.fullmatch(r"<class '(?:[\w.]*\.)?(\w+)'>:<'(.*)'>", words)
    return (": ".join(found.groups()) if found else words)[:length]
