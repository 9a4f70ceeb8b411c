"""The parts of the runtime that need a database: keys, links, metrics, vault, erasure."""

from functools import partial

from penstock.chat.access.keys import Keys
from penstock.chat.access.sign_ins import SignIns
from penstock.chat.access.web_links import WebLinks
from penstock.chat.metrics import Metrics
from penstock.core.clock import Clock
from penstock.manifest.permissions import PermissionCatalog
from penstock.resources.cipher import Cipher
from penstock.resources.vault import SqlVault
from penstock.store.blobs.blobs import Blobs
from penstock.store.database import Database
from penstock.store.erasing.erasure import Erasure
from penstock.store.erasing.sweeper import Sweeper
from penstock.store.projections.lookup import Lookup
from penstock.store.repair.health import look


class DatabaseParts:
    """Keys, links, sign-ins and the vault; search, metrics and erasure of conversations."""

    def __init__(
        self,
        database: Database,
        blobs: Blobs,
        clock: Clock,
        cipher: Cipher,
        *,
        permissions: PermissionCatalog | None = None,
    ) -> None:
        self.look = partial(look, database, blobs)
        """Checks whether the store works."""
        self.keys = Keys(database, clock, catalog=permissions)
        self.lookup = Lookup(database, blobs)
        self.metrics = Metrics(database, blobs)
        self.erasure = Erasure(database, blobs, clock)
        self.sweeper = Sweeper(self.erasure, blobs, clock, seconds=database.limits.loose_seconds)
        self.vault = SqlVault(database, cipher, clock)
        self.web_links = WebLinks(database, clock)
        self.sign_ins = SignIns(database, self.keys, clock)
