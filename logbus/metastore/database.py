"""
The SQLite file of the embedded store.

All calls block; they are made only on the store's own thread, where sqlite3 releases the GIL.

The file is in WAL mode with ``synchronous=FULL``: a commit returns after the log has been synced (in the rollback
modes a power cut just after the commit may bring back the journal, and with it the state before). The write-ahead log
is locked exclusively, so that no second process can write.

On a full disk topics can still be deleted and settings changed: the write-ahead log is kept as large as some changes
take, and is written from its beginning again; the file has free pages for them. SQLite removes that log when it closes
the file, so its room is then held by a file of its own.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import define, field

from logbus.metastore.operations import DatabaseFull, StoreUnusable
from logbus.metastore.tree import Row, Tree
from logbus.portability import sync_directory

SCHEMA_VERSION = 1
APPLICATION_ID = 0x6C676273  # "lgbs"

_SCHEMA = """
CREATE TABLE node (
    path TEXT PRIMARY KEY, data BLOB NOT NULL, czxid INTEGER NOT NULL, mzxid INTEGER NOT NULL, ctime INTEGER NOT NULL,
    mtime INTEGER NOT NULL, version INTEGER NOT NULL, creations INTEGER NOT NULL, owner INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counter VALUES ('zxid', 0);
"""
_HELD_PAGES = 64
"""Of 4 KiB, held in either file."""

_MERGED_PAGES = 48
"""After so many the write-ahead log is merged into the file, and begun again: one more change finds room in it."""

_WAL_BYTES = (_HELD_PAGES + 8) * 4096
"""What the write-ahead log takes at most with the held pages."""

_UPSERT = "INSERT OR REPLACE INTO node VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_DELETE = "DELETE FROM node WHERE path = ?"
_SELECT = "SELECT path, data, czxid, mzxid, ctime, mtime, version, creations, owner FROM node"


def held_room(path: Path) -> Path:
    """The file that holds the room of the write-ahead log while the store at a path is closed."""
    return path.with_name(f"{path.name}-room")


@define(eq=False)
class Database:
    """One ``metadata.db``, held open."""

    path: Path
    _connection: sqlite3.Connection | None = field(default=None, init=False)

    def open(self) -> Tree:
        """
        Open or create the file and read all of it.

        :raise StoreUnusable: it is damaged, not ours, of a newer version, or held by another process; it is left as
            it is.
        """
        try:
            with self._explained():
                self._keep_private()
                held_room(self.path).unlink(missing_ok=True)
                # One thread uses it at a time, but a pool may replace its thread.
                self._connection = sqlite3.connect(
                    self.path, timeout=0.0, isolation_level=None, check_same_thread=False
                )
                self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
                new = self._is_new()
                if not new:
                    self._check()
                self._connection.execute("PRAGMA synchronous = FULL")
                # Of effect on macOS only: see logbus.portability.sync.
                self._connection.execute("PRAGMA fullfsync = ON")
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute(f"PRAGMA wal_autocheckpoint = {_MERGED_PAGES}")
                if new:
                    self._create()
                self._hold_room()
                return self._read()
        except BaseException:
            self._disconnect()
            raise

    def commit(self, rows: Iterable[Row], gone: Iterable[str], zxid: int) -> None:
        """
        Write a transaction; it is on stable storage when this returns.

        :param rows: nodes created or changed; ``gone``: paths of deleted nodes.
        :raise DatabaseFull: nothing was written.
        :raise StoreUnusable: it is not known what was written.
        """
        connection = self._connection
        if connection is None:
            raise StoreUnusable(f"{self.path} is closed")
        with self._explained():
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.executemany(_DELETE, ((path,) for path in gone))
                connection.executemany(_UPSERT, rows)
                connection.execute("UPDATE counter SET value = ? WHERE name = 'zxid'", (zxid,))
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def close(self) -> None:
        """Merge the write-ahead log into the file and close it."""
        if self._connection is not None:
            self._disconnect()
            with suppress(OSError):  # Somebody else has taken the room.
                held_room(self.path).write_bytes(bytes(_WAL_BYTES))

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _hold_room(self) -> None:
        """Have both files take the room that some changes need, as far as there is any."""
        with suppress(sqlite3.OperationalError):
            self._execute("CREATE TABLE IF NOT EXISTS room (held BLOB)")
            self._execute(f"INSERT INTO room VALUES (zeroblob({_HELD_PAGES * 4096}))")
            # Only what is merged is in the file.
            self._execute("PRAGMA wal_checkpoint")
        with suppress(sqlite3.OperationalError):
            self._execute("DROP TABLE IF EXISTS room")

    def _keep_private(self) -> None:
        """Keep others of the machine from reading it: it has users' credentials."""
        with suppress(OSError):  # SQLite says what is wrong, or another user owns the file.
            try:
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            except FileExistsError:
                self.path.chmod(0o600)

    def _is_new(self) -> bool:
        # An empty file, or one that a power cut left between the first page and the schema.
        return self._number("PRAGMA application_id") == 0 and self._number("SELECT count(*) FROM sqlite_master") == 0

    def _check(self) -> None:
        kind = self._number("PRAGMA application_id")
        version = self._number("PRAGMA user_version")
        if kind != APPLICATION_ID:
            raise StoreUnusable(f"{self.path} is an SQLite file, but not a metadata store; move it out of the way")
        if version > SCHEMA_VERSION:
            raise StoreUnusable(
                f"{self.path} has schema version {version}, of a newer release; this one knows {SCHEMA_VERSION}"
            )
        if version < 1:
            raise StoreUnusable(f"{self.path} has schema version {version}, which never was; restore it from a copy")
        [[verdict], *_] = self._execute("PRAGMA quick_check(1)").fetchall()
        if verdict != "ok":
            raise StoreUnusable(f"{self.path} is damaged ({verdict}); restore it from a copy")

    def _create(self) -> None:
        # One transaction, so that a power cut leaves an empty file or a complete one.
        self._execute("BEGIN")
        for statement in _SCHEMA.split(";"):
            self._execute(statement)
        self._execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self._execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        self._execute("COMMIT")
        # SQLite syncs the directory for its journals, but not for the file itself.
        sync_directory(self.path.parent)

    def _read(self) -> Tree:
        zxid = self._number("SELECT value FROM counter WHERE name = 'zxid'")
        return Tree.load(map(Row._make, self._execute(_SELECT)), zxid)

    def _execute(self, statement: str) -> sqlite3.Cursor:
        assert self._connection is not None
        return self._connection.execute(statement)

    def _number(self, statement: str) -> int:
        row = self._execute(statement).fetchone()
        if row is None:
            raise StoreUnusable(f"{self.path} is damaged (no answer to {statement!r}); restore it from a copy")
        return int(row[0])

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn an error of SQLite or the file system into one sentence that names the file."""
        try:
            yield
        except StoreUnusable:
            raise
        except OSError as error:
            raise StoreUnusable(f"{self.path} cannot be used: {error.strerror}") from error
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code == sqlite3.SQLITE_FULL:
                raise DatabaseFull(f"{self.path}: there is no room for a change of the metadata") from error
            if code == sqlite3.SQLITE_BUSY:
                raise StoreUnusable(f"{self.path} is held by another process") from error
            if code == sqlite3.SQLITE_CANTOPEN:
                raise StoreUnusable(f"{self.path} cannot be opened: check the directory and its permissions") from error
            if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise StoreUnusable(f"{self.path} is damaged ({error}); restore it from a copy") from error
            raise StoreUnusable(f"{self.path} cannot be used: {error}") from error
