"""Failures of commands: each ends with one sentence that says what to do, and exit status 1 unless it says another."""

import errno
import os
import sys
from collections.abc import Callable

from deploy.cli.output import errors
from domain.errors import FuelrouteError
from domain.text import printable, without_secrets


class CommandFailed(FuelrouteError):
    """One sentence for the person at the terminal, and the exit status."""

    exit_status = 1


def run(program: Callable[[], object]) -> None:
    """Runs a program of the command line and turns every failure into one sentence that says what to do, and its exit
    status."""
    try:
        try:
            program()
        finally:
            _write_rest()
    except UnicodeError as error:
        if isinstance(error, UnicodeEncodeError) and error.encoding != "utf-8":
            _fail(f"the output has characters that {error.encoding} lacks: set PYTHONUTF8=1")
        _fail("an argument is not text: give it in UTF-8")
    except CommandFailed as failed:
        _fail(str(failed), failed.exit_status)
    except (FuelrouteError, PermissionError) as error:
        _fail(str(error))
    except Exception as error:
        sentence = _of_file(error) or _of_server(error)
        if sentence is None:
            raise
        _fail(sentence)


def _write_rest() -> None:
    """Writes the output that waits in memory. Otherwise the interpreter would, and tell a full disk by a traceback."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter writes the same again
        if error.errno == errno.EPIPE:  # the reader has gone, as `head` does
            sys.exit(1)
        raise


def _of_file(error: Exception) -> str | None:
    """The sentence for a file, or for standard output, that cannot be used; None for other errors."""
    if not isinstance(error, OSError):
        return None
    if error.filename is not None:
        return f"cannot use {error.filename}: {error.strerror}"
    return f"cannot write the output: {error.strerror}" if error.errno == errno.ENOSPC else None


def _of_server(error: Exception) -> str | None:
    """The sentence for an error of PostgreSQL or Redis; None for other errors. Their libraries take a tenth of a second
    to load, and a command that has not loaded one has no error of it."""
    error = getattr(error, "orig", error)  # migrations reach PostgreSQL through SQLAlchemy
    psycopg, redis = sys.modules.get("psycopg"), sys.modules.get("redis")
    if psycopg is not None and isinstance(error, psycopg.errors.UndefinedTable):
        return "the database has no Fuelroute schema: run `fuelroute migrate` first"
    if psycopg is not None and isinstance(error, psycopg.errors.UndefinedColumn | psycopg.errors.UndefinedFunction):
        return f"the database has the schema of another release ({_first_line(error)}): run `fuelroute migrate`"
    if psycopg is not None and isinstance(error, psycopg.OperationalError | psycopg.errors.ReadOnlySqlTransaction):
        from domain.database.connections import advice_on

        return f"cannot use PostgreSQL ({_first_line(error)}): {advice_on(error)}"
    if redis is not None and isinstance(error, redis.RedisError):
        return f"cannot use Redis ({_first_line(error)}): check FUELROUTE_REDIS_URL and that the server runs"
    return None


def _fail(sentence: str, exit_status: int = 1) -> None:
    sentence = printable(without_secrets(sentence))
    errors.print(f"fuelroute: {sentence}", style="red", highlight=False, soft_wrap=True)
    sys.exit(exit_status)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
