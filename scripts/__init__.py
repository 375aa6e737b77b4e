"""Commands for people."""

from core.console import interpreter

interpreter.require()
