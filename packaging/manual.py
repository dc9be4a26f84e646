#!/usr/bin/env python3
"""Writes the manual's page of a program, from what it says of itself with --help.

usage: packaging/manual.py PROGRAM VERSION [FILE.roff] >NAME.8

FILE.roff is put behind the options: what --help has no room for. So no program that
ships carries what is needed once, to build its page.
"""
import pathlib, re, subprocess, sys


def escape(text):
    """As roff: a line that begins with a dot or a quote is no command."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in ".'" else text


def marked(text):
    """What stands between backticks is in bold."""
    return re.sub(r"`([^`]*)`", r"\\fB\1\\fR", escape(text))


def paragraphs(lines):
    """Blocks between empty lines, each as one line."""
    block = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line.strip())
        elif block:
            yield " ".join(block)
            block = []


def page(name, version, said, more):
    about, _, rest = said.partition("\nUsage: ")
    usage, _, options = rest.partition("\nOptions:\n")
    # Not the list of commands: FILE.roff says more of them.
    usage = usage.partition("\n\n")[0]
    first, *others = paragraphs(about.split("\n"))
    out = [f'.TH {name.upper()} 8 "" "VirtFun {version}" "VirtFun"', ".SH NAME"]
    out += [f"{name} \\- {marked(first.rstrip('.'))}", ".SH SYNOPSIS", f"\\fB{escape(usage.strip())}\\fR"]
    out += [".SH DESCRIPTION"]
    for text in others or [first]:
        out += [".PP", marked(text)]
    out += [".SH OPTIONS"]
    # An option begins a line with two or six spaces; what is said of it has more.
    for part in re.split(r"\n(?= {2,6}-)", "\n" + options)[1:]:
        option, *lines = part.split("\n")
        out += [".TP", f"\\fB{escape(option.strip())}\\fR"]
        for i, text in enumerate(paragraphs(lines)):
            out += ([".sp"] if i else []) + [marked(text)]
    return "\n".join(out) + "\n" + more


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__.strip())
    program = pathlib.Path(sys.argv[1])
    # Without what this machine's environment would put into it.
    said = subprocess.run([program, "--help"], check=True, stdout=subprocess.PIPE, text=True, env={}).stdout
    more = pathlib.Path(sys.argv[3]).read_text() if len(sys.argv) == 4 else ""
    sys.stdout.write(page(program.name, sys.argv[2], said, more))


if __name__ == "__main__":
    main()
