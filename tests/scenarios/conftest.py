"""Checks every document that a command gives in these tests against the command's schema."""

from tests.schema_checks import documents_are_as_described

__all__ = ["documents_are_as_described"]
