"""A module that cannot be imported."""

import no_such_module_anywhere  # type: ignore[import-not-found]  # noqa: F401
