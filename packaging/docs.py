#!/usr/bin/env python3
"""Copies the pages into a folder of which mdBook makes the site: packaging/docs.sh.

A link to a file outside of docs/ would lead nowhere there. Such a file is copied beside
the pages, as text; of a link to a folder only the words are left.

usage: packaging/docs.py FOLDER
"""
import pathlib, re, shutil, sys

REPO = pathlib.Path(__file__).resolve().parents[1]
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s:#]+)(#[^()\s]*)?\)")
API = """# API references

- Rust: [`vfun`](api/rust/vfun/index.html) (programs), [`vfun_sdk`](api/rust/vfun_sdk/index.html)
  (drivers), [`vfun_function`](api/rust/vfun_function/index.html) (one source),
  [`vfun_wire`](api/rust/vfun_wire/index.html) (the bytes)
- [C headers](api/c/index.html)
- Python: the types and docs of the package, by `help(virtfun)`; the guide is [Python](python.md)
"""


def place(page):
    """Where a page of the repository lies among the copies; none if it is no page of the site."""
    if page == REPO / "README.md":
        return pathlib.Path("index.md")
    if page == REPO / "CHANGELOG.md":
        return pathlib.Path("CHANGELOG.md")
    docs = REPO / "docs"
    return page.relative_to(docs) if page.is_relative_to(docs) and page.suffix == ".md" else None


def moved(page, to):
    """A page's text with its links as they are in the copy."""
    up = "../" * (len(place(page).parts) - 1)

    def link(match):
        words, path, anchor = match[1], match[2], match[3] or ""
        file = (page.parent / path).resolve()
        # The list of contents is the site's menu, and no page of it.
        if place(file) and file.name != "SUMMARY.md":
            return f"[{words}]({up}{place(file)}{anchor})"
        if not file.is_file() or file.name == "SUMMARY.md":
            return words
        copy = pathlib.Path("source") / f"{file.relative_to(REPO)}.txt"
        (to / copy).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, to / copy)
        return f"[{words}]({up}{copy})"

    parts = re.split(r"(^```.*?^```[^\n]*$)", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)


def main():
    to = pathlib.Path(sys.argv[1]).resolve()
    to.mkdir(parents=True)
    for page in [REPO / "README.md", REPO / "CHANGELOG.md", *(REPO / "docs").rglob("*.md")]:
        copy = to / place(page)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(moved(page, to))
    (to / "api.md").write_text(API)
    contents = to / "SUMMARY.md"
    contents.write_text(contents.read_text().replace("- [Glossary]", "- [API references](api.md)\n- [Glossary]"))
    shutil.copyfile(REPO / "docs/book.toml", to / "book.toml")


main()
