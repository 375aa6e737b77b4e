"""The processes. Each reads like its algorithm; the work is in `core`."""

from core.console import interpreter

interpreter.require()
