"""The processes. Each reads like its algorithm; the work is in `core`."""

from core.runtime import python_version

python_version.require()
