"""A preprocessor of mdBook: links that leave the book lead to the repository.

mdBook calls it with `supports RENDERER`, and with a book on standard input.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

# A link of a page of the book, all of which are in one folder.
OUTSIDE = re.compile(r"\]\(\.\./([^)\s]+)\)")


def rewrite(items: list[Any], repository: str) -> None:
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter is not None:
            chapter["content"] = OUTSIDE.sub(rf"]({repository}/blob/main/\1)", chapter["content"])
            rewrite(chapter["sub_items"], repository)


def main() -> None:
    if sys.argv[1:2] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    rewrite(book["items"], context["config"]["output"]["html"]["git-repository-url"])
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
