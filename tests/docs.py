#!/usr/bin/env python3
"""Checks the pages for people: each relative link leads to a file that is there, and
to a heading that is in it; docs/SUMMARY.md, the list of contents, names every page;
the table of parts in docs/architecture.md names every package, by its folder or one above.

usage: tests/docs.py            the pages of this repository
       tests/docs.py FOLDER     those of a copy

Before that it looks for faults that it made itself, so that it cannot fall silent.
"""
import pathlib, re, sys, tempfile, urllib.parse

REPO = pathlib.Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^(```|~~~).*?^\1[^\n]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]\[]*(?:\[[^\]]*\][^\]\[]*)*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?)[ #]*$", re.MULTILINE)


def pages(root):
    found = [root / "README.md", root / "CHANGELOG.md", root / "guest/python/README.md"]
    found += sorted((root / "docs").rglob("*.md"))
    return [page for page in found if page.is_file()]


def prose(page):
    """A page's text without its blocks of code, where brackets are no links."""
    return FENCE.sub("", page.read_text())


def anchors(page):
    """Names of a page's headings, as GitHub and mdBook make them."""
    seen, names = {}, set()
    for heading in HEADING.findall(prose(page)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", text.replace("`", "")).strip().replace(" ", "-")
        names.add(f"{name}-{seen[name]}" if name in seen else name)
        seen[name] = seen.get(name, 0) + 1
    return names


def faults_of(page, root):
    if re.search(r"^(<{7}|>{7}) ", page.read_text(), re.MULTILINE):
        yield f"{page.relative_to(root)}: has marks of a merge that was not finished"
    text = re.sub(r"`[^`\n]*`", lambda code: code[0].replace("](", "] ("), prose(page))
    for link in LINK.findall(text):
        target = urllib.parse.unquote(link)
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        where = f"{page.relative_to(root)}: ({link})"
        if not file.exists():
            yield f"{where}: there is no {path}"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file):
            yield f"{where}: {file.name} has no heading #{anchor}"


def parts(root):
    """Packages that the table of parts does not name."""
    table = (root / "docs/architecture.md").read_text().partition("## The parts\n")[2].partition("\n## ")[0]
    cells = [row.split("|")[1] for row in table.splitlines() if row.startswith("|")]
    named = {name.rstrip("/") for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
    for manifest in sorted(root.glob("[!.]*/**/Cargo.toml")):
        folder = manifest.parent.relative_to(root)
        above = {str(f) for f in (folder, *folder.parents)}
        if folder.parts[0] != "target" and not named & above:
            yield f"docs/architecture.md: the table of parts does not name {folder}"


def faults(root):
    found = [fault for page in pages(root) for fault in faults_of(page, root)]
    found += parts(root)
    contents = root / "docs/SUMMARY.md"
    listed = {(contents.parent / link).resolve() for link in LINK.findall(contents.read_text())}
    missing = [p for p in pages(root) if p.is_relative_to(root / "docs") and p.resolve() not in listed]
    return found + [f"docs/SUMMARY.md does not name {p.relative_to(root)}" for p in missing if p != contents]


def self_test():
    """A small set of pages, and each fault in turn."""
    good = {
        "README.md": "# A\n[x](docs/a.md#the-first)\n```\n[no link](gone.md)\n```\n`[code](gone.md)`\n",
        "docs/SUMMARY.md": "[a](a.md) [b](b.md) [c](architecture.md)\n",
        "docs/architecture.md": "## The parts\n| `host/core` | x |\n| `functions/` | of `host` |\n## Next\n`host/more`\n",
        "host/core/Cargo.toml": "",
        "functions/f/Cargo.toml": "",
        "docs/a.md": "## The `first`\n[up](../README.md#a) [here](#the-first) [web](https://example.org/x)\n",
        "docs/b.md": "## Twice\n## Twice\n[2](#twice-1)\n",
    }
    bad = [
        ("README.md", "# A\n[x](docs/gone.md)", "there is no docs/gone.md"),
        ("README.md", "# A\n[x](docs/a.md#second)", "a.md has no heading #second"),
        ("docs/b.md", "[3](#twice-2)", "b.md has no heading #twice-2"),
        ("docs/b.md", "## Twice\n" + "<" * 7 + " HEAD\n## Twice\n", "marks of a merge"),
        ("docs/SUMMARY.md", "[a](a.md) [c](architecture.md)\n", "docs/SUMMARY.md does not name docs/b.md"),
        ("host/more/Cargo.toml", "", "the table of parts does not name host/more"),
    ]
    for name, text, due in [(None, None, None), *bad]:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder).resolve()
            for file, words in (good | {name: text} if name else good).items():
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                (root / file).write_text(words)
            found = faults(root)
            right = not found if due is None else len(found) == 1 and due in found[0]
            assert right, f"{name}: {text}: found {found}, not {due}"


def main():
    self_test()
    root = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else REPO
    found, looked = faults(root), len(pages(root))
    print("\n".join(found) or f"{looked} pages, every link leads somewhere")
    sys.exit(bool(found))


main()
