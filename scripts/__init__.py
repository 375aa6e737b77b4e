"""The commands of `freshet` and of `./scripts/up`."""

from core.runtime import interpreter

interpreter.require()
