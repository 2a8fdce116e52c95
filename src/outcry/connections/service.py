"""Users' own feeds as the pages show them: broker connections, and feeds their programs push.

Only its owner sees a connection. Credentials are encrypted before they are stored, and never shown. A broker that runs
on the user's machine is connected by the agent on that machine, unless the setting `local_brokers` says that this
service runs there.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from outcry.connections.broker_adapter import InvalidCredential
from outcry.connections.feed_factory import FeedFactory
from outcry.connections.lifecycle import Sign, moved
from outcry.connections.model import (
    MAX_ROOTS,
    Broker,
    ConnectionPhase,
    ConnectionRefused,
    ConnectionRow,
    Finding,
)
from outcry.connections.pushed import PushedConnections
from outcry.connections.sign_in_attempts import SignInAttempts
from outcry.connections.streams import ConnectionRunner
from outcry.live.registry import Registry

#: Length of a secret's visible end, and the shortest secret that shows one.
_HINT = 4
_SHORTEST_HINTED = 12


class BrokerConnections:
    """Users' broker connections. All methods may raise `StoreBusy`; all but `check` block.

    `runs`: the component that runs the connections, in this process or another.
    """

    def __init__(self, parts: FeedFactory, runs: ConnectionRunner, registry: Registry) -> None:
        self._parts, self._runs = parts, runs
        self._store, self._pushed = parts.store, PushedConnections(registry)
        self._attempts = SignInAttempts()

    def brokers(self) -> Sequence[Broker]:
        """Return the brokers that offer a product of this service.

        They include those that only an agent can connect (`Broker.hosted`).
        """
        products = self._parts.universe.products.values()
        brokers = (adapter.broker for adapter in self._parts.adapters.values())
        return [broker for broker in brokers if any(map(broker.offers, products))]

    def connectable(self, broker: Broker) -> bool:
        """Return whether this service may connect a broker: its rules allow it, and the library is installed."""
        return not self._parts.rules.refusal(broker)

    def connections(self, user_id: int) -> Sequence[ConnectionRow]:
        """Return a user's connections, oldest first.

        Pushed feeds come last; their rows have `PUSHED` as broker.
        """
        own = self._store.rows(user_id)
        brokers = {row.broker for row in own} | self._runs.connected_brokers(user_id)
        return [*own, *self._pushed.connections(user_id, brokers)]

    def counts(self) -> Mapping[ConnectionPhase, int]:
        """Return the number of connections per phase over all users, without pushed feeds."""
        return Counter(row.phase for row in self._store.rows())

    def reserved(self, user_id: int) -> Collection[str]:
        """Return the feed names of a user's connections; the user's pushed feeds must not use these names."""
        return {row.broker for row in self._store.rows(user_id)}

    def connect(
        self,
        user_id: int,
        broker: str,
        label: str,
        given: Mapping[str, str],
        roots: Sequence[str],
        now_ns: int,
    ) -> int:
        """Create a connection for these products and return its id. Raises `ConnectionRefused`."""
        found = next((one for one in self.brokers() if one.id == broker), None)
        if found is None:
            raise ConnectionRefused("unknown_broker", "broker")
        row = ConnectionRow(
            0, user_id, broker, label, ConnectionPhase.CONNECTING, "connecting", now_ns,
            self._roots(roots, found), _hint(found, given),
        )  # fmt: skip
        self._judge(row, given)
        if any(
            row.label == broker and row.phase is not ConnectionPhase.PAUSED for row in self._pushes(user_id)
        ):
            raise ConnectionRefused("pushed")
        self._count(row, now_ns)
        number = self._store.add(row, self._parts.vault.seal(user_id, broker, given), now_ns)
        self._runs.wake()
        return number

    def renew(self, user_id: int, connection_id: int, given: Mapping[str, str], now_ns: int) -> bool:
        """Replace all credentials of a connection and reconnect; return False if the user has no such connection.

        Raises `ConnectionRefused`.
        """
        row = self._own(user_id, connection_id)
        if row is None:
            return False
        self._judge(row, given)
        self._count(row, now_ns)
        broker = self._parts.adapters[row.broker].broker
        seal = self._parts.vault.seal(user_id, row.broker, given)
        if not self._store.renew(connection_id, _hint(broker, given), seal):
            return False
        return self._sign(row, Sign.REQUESTED, "connecting", now_ns)

    def choose(self, user_id: int, connection_id: int, roots: Sequence[str], label: str) -> bool:
        """Change products and label; return False if there is no such connection. Raises `ConnectionRefused`."""
        row = self._own(user_id, connection_id)
        if row is None:
            return False
        adapter = self._parts.adapters.get(row.broker)
        if not self._store.change(
            connection_id, self._roots(roots, adapter.broker if adapter else None), label
        ):
            return False
        self._runs.wake()
        return True

    def pause(self, user_id: int, connection_id: int, now_ns: int) -> bool:
        """Pause a connection until it is resumed; return False if there is no such connection."""
        row = self._own(user_id, connection_id)
        return row is not None and self._sign(row, Sign.PAUSED, "paused", now_ns)

    def resume(self, user_id: int, connection_id: int, now_ns: int) -> bool:
        """Reconnect a paused or failed connection; return False if there is no such connection.

        A running connection is restarted.
        """
        row = self._own(user_id, connection_id)
        if row is None:
            return False
        self._count(row, now_ns)
        return self._sign(row, Sign.REQUESTED, "connecting", now_ns)

    def disconnect(self, user_id: int, connection_id: int, now_ns: int) -> bool:
        """Remove a connection and its credentials, and keep the data it received.

        Returns False if the user has no such connection.
        """
        if self._own(user_id, connection_id) is None or not self._store.remove(connection_id):
            return False
        self._runs.wake()
        return True

    async def check(self, user_id: int, connection_id: int) -> Sequence[Finding] | None:
        """Check which parts of a connection work, within 30 s; return None if there is no such connection.

        For a running connection, the status of its streams decides; for any other, a temporary feed is opened.
        """
        row = await asyncio.to_thread(self._own, user_id, connection_id)
        return None if row is None else await self._runs.check(row)

    def _sign(self, row: ConnectionRow, sign: Sign, code: str, now_ns: int) -> bool:
        """Apply a user's action (`sign`) to a connection, even if another process changed its phase meanwhile.

        Return False if the connection was removed.
        """
        restart = sign is Sign.REQUESTED
        while not self._store.move(row.id, row.phase, moved(row.phase, sign), code, now_ns, restart=restart):
            again = self._own(row.user_id, row.id)
            if again is None:
                return False
            row = again
        self._runs.wake()
        return True

    def _count(self, row: ConnectionRow, now_ns: int) -> None:
        if not self._attempts.take(row.user_id, row.broker, now_ns):
            raise ConnectionRefused("too_soon")

    def _own(self, user_id: int, connection_id: int) -> ConnectionRow | None:
        return next((row for row in self._store.rows(user_id) if row.id == connection_id), None)

    def _pushes(self, user_id: int) -> Sequence[ConnectionRow]:
        return self._pushed.connections(user_id, self._runs.connected_brokers(user_id))

    def _roots(self, roots: Sequence[str], broker: Broker | None) -> tuple[str, ...]:
        """Return the chosen products in order, without duplicates. Raises `ConnectionRefused`."""
        products = self._parts.universe.products
        chosen = tuple(dict.fromkeys(roots))
        known = all(
            root in products
            and not products[root].parent
            and (broker is None or broker.offers(products[root]))
            for root in chosen
        )
        if not chosen or len(chosen) > MAX_ROOTS or not known:
            raise ConnectionRefused("roots", "roots")
        return chosen

    def _judge(self, row: ConnectionRow, given: Mapping[str, str]) -> None:
        """Check a connection's broker and entries without contacting the vendor.

        Raises `ConnectionRefused` for a broker that is not allowed here or an invalid entry.
        """
        adapter = self._parts.adapters[row.broker]
        if refusal := self._parts.rules.refusal(adapter.broker):
            raise ConnectionRefused(refusal)
        for field in adapter.broker.fields:
            value = given.get(field.name, "")
            if not value and not field.optional:
                raise ConnectionRefused("missing", field.name)
            if value and field.options and value not in field.options:
                raise ConnectionRefused("rejected", field.name)
        try:
            adapter.feed(given, self._parts.context(replace(row)))
        except InvalidCredential as problem:
            raise ConnectionRefused(problem.code, problem.field) from None
        except ImportError:
            raise ConnectionRefused("not_installed") from None


def _hint(broker: Broker, given: Mapping[str, str]) -> str:
    """Return the last characters of the first secret that is long enough to show them."""
    secrets = (given.get(field.name, "") for field in broker.fields if field.secret)
    return next((secret[-_HINT:] for secret in secrets if len(secret) >= _SHORTEST_HINTED), "")
