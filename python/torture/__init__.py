"""The proof of what docs/reliability.md promises: the released program and the real client, tortured.

    PYTHONPATH=python python -m torture target/torture --slice

Each row of the table is a file here, and has parts. A part's result is a line of `target/torture/results.jsonl`; parts
that are there are not run again unless the binary or the seed has changed.
"""
