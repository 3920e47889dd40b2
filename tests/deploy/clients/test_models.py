"""The models of the clients are those that the generators make of today's description."""

import pytest

from deploy.clients import generating


@pytest.mark.slow
@pytest.mark.parametrize("language", ["python", "typescript"])
def test_generating_the_models_again_changes_nothing(language: str) -> None:
    """If this fails, run `deploy/clients/generate`, and check what the clients make of the change."""
    make, there = {
        "python": (generating.python_models, generating.PYTHON_MODELS),
        "typescript": (generating.typescript_models, generating.TYPESCRIPT_MODELS),
    }[language]

    assert make() == there.read_text(encoding="utf-8")
