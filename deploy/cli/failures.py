"""Failures of commands: each ends with one sentence that says what to do, and exit status 1."""

import sys
from collections.abc import Callable

import psycopg
import redis

from deploy.cli.output import errors
from domain.errors import FuelrouteError
from domain.text import printable, without_secrets


class CommandFailed(FuelrouteError):
    """One sentence for the person at the terminal; exit status 1."""


def run(program: Callable[[], object]) -> None:
    """Runs a program of the command line: every failure is one sentence that says what to do, and exit status 1."""
    try:
        program()
    except psycopg.errors.UndefinedTable:
        _fail("the database has no Fuelroute schema: run `fuelroute migrate` first")
    except psycopg.OperationalError as error:
        _fail(f"cannot use PostgreSQL ({_first_line(error)}): check FUELROUTE_DATABASE_URL and that the server runs")
    except redis.RedisError as error:
        _fail(f"cannot use Redis ({_first_line(error)}): check FUELROUTE_REDIS_URL and that the server runs")
    except UnicodeError:
        _fail("an argument is not text: give it in UTF-8")
    except (FuelrouteError, PermissionError) as error:
        _fail(str(error))


def _fail(sentence: str) -> None:
    sentence = printable(without_secrets(sentence))
    errors.print(f"fuelroute: {sentence}", style="red", highlight=False, soft_wrap=True)
    sys.exit(1)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
