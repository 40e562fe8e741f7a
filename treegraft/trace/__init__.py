"""Traces: the file format of recorded runs, its writer, its reader, and the replay of a round's events."""

from treegraft.trace.codec import TraceError
from treegraft.trace.reader import Run, Trace, TracedRound, open
from treegraft.trace.writer import Writer

__all__ = ["Run", "Trace", "TraceError", "TracedRound", "Writer", "open"]
