"""The processes. Each reads like its algorithm; the work is in `core`."""

from core.runtime import interpreter

interpreter.require()
