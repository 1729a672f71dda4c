"""Parts that a user writes, outside the package."""
