"""When Python searches for garbage: not while a process imports, and then only among what is made later.

Used before anything is known of this Python, so it takes only what old versions have too.
"""

import gc

IMPORT_THRESHOLD = 250_000
"""New objects before a search, while a process imports what it needs. All of that stays, some 200,000 objects: with a
threshold of 20,000 the searches were 23 ms of the 270 in which the timer starts, and 34 of a worker's 300."""
THRESHOLD = 20_000
"""The same at work. A page or a batch makes thousands of objects that live until it is done; with Python's 700 they are
searched again and again, for a twentieth of the CPU time of a page."""


def expect_imports() -> None:
    """Search hardly ever from now on."""
    gc.set_threshold(IMPORT_THRESHOLD)


def settle() -> None:
    """Leave alone for good what there is now, and search what is made from now on: the imports are done.

    Children that are forked share its pages, which a search would copy.
    """
    gc.freeze()
    gc.set_threshold(THRESHOLD)
