"""Engines that the suite is run against, each in a process of its own: `run(engine, vectors)` yields the outcomes.

worker     the other process, which needs nothing of this program: an engine is a function there
running    the process, asked for one vector after another
"""
