"""The commands of `freshet` and of `./scripts/up`."""

from core.runtime import python_version

python_version.require()
