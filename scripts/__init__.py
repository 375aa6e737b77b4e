"""Commands for people."""

from core.runtime import interpreter

interpreter.require()
