"""What commands return and how it is shown: rich, plain or JSON (platform-api.md §6)."""

from osmosis.cli.output.results import (
    Column,
    Detail,
    Listing,
    Listings,
    NextStep,
    Operation,
    Result,
    Section,
)

__all__ = ["Column", "Detail", "Listing", "Listings", "NextStep", "Operation", "Result", "Section"]
