"""A lake: captured messages in files, and a manifest that says which files count.

    folder      reads, replaces, moves and removes files, on this host or in any storage
    layout      where everything is
    identity    whose lake it is, and in which format
    manifest    what an hour of an entity has: files, ranges, counts, digests
    coverage    which sequence numbers a capture has looked at
    lake        all of it, for jobs
    unreadable  Spark's errors of files, told as errors of the lake
    messages    the rows, and their digests: the part that needs Spark
    stores      where the rows are: in files, or in a table

docs/reference/lake.md describes the files for other programs.
"""
