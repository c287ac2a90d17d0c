# SPDX-License-Identifier: Apache-2.0
"""One page per encoding, English and Chinese, from docs/encodings/*.toml by one template. What the lab measured is taken from docs/lab.md."""
import re
import tomllib

# The headings of a page, in this order, in both languages.
HEADINGS = {
    "en": {
        "what": None,
        "formula": "Formula",
        "picture": "Picture",
        "code": "Code",
        "properties": "Properties",
        "users": "Who uses it",
        "pitfalls": "Pitfalls",
        "lab": "What the lab measured",
        "papers": "Papers",
    },
    "zh": {"what": None, "formula": "公式", "picture": "图", "code": "代码", "properties": "性质", "lab": "实验测到什么", "papers": "论文", "users": "更多"},
}
WORDS = {
    "en": {
        "symbols": "Symbols: $m$ is the position of the query, $n$ that of the key, $r = m - n$ the distance; $D$ channels of a head, $R$ of them rotated; "
        "$i$ counts pairs from 0, $h$ heads from 0; $B$ is the base.",
        "not_measured": "Not measured in [the lab](../lab.md).",
        "lab": "Loss in nats per token of a small model at 1, 1.5, 2 and 8 times its trained length, mean and deviation of three seeds. [The lab](../lab.md) has the conditions.",
        "row": "| encoding | 1x | 1.5x | 2x | 8x |",
        "other": "[中文](../zh/encodings/{name}.md)",
    },
    "zh": {
        "symbols": "记号：$m$ 是 query 的位置，$n$ 是 key 的位置，$r = m - n$ 是距离；一个头有 $D$ 个通道，其中 $R$ 个参与旋转；$i$ 是从 0 数起的通道对，$h$ 是从 0 数起的头；$B$ 是底数。",
        "not_measured": "[实验](../../lab.md)中没有测。",
        "lab": "小模型在训练长度的 1、1.5、2、8 倍处的损失（nat 每 token，三个种子的均值与标准差）。条件见[实验](../../lab.md)。",
        "row": "| 编码 | 1x | 1.5x | 2x | 8x |",
        "other": "[English](../../encodings/{name}.md)",
        "full": "谁在用、常见的坑：见[英文页](../../encodings/{name}.md)。",
    },
}
HAN = re.compile(r"[\u3400-\u9fff]")
FAMILIES = ["additive", "rotary", "scaling", "maps", "bias", "tables"]


def lab_rows(docs):
    """The table of docs/lab.md, line by line, by the name of the encoding; the floor too."""
    rows = {}
    for line in (docs / "lab.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == 5 and re.match(r"^(\d\.\d{3}|error)", cells[1]):
            rows[cells[0]] = "| " + " | ".join(cells) + " |"
    return rows


def encodings(docs):
    """Every encoding in the order of the files and the tables in them."""
    found = []
    for family in FAMILIES:
        with open(docs / "encodings" / f"{family}.toml", "rb") as file:
            for name, entry in tomllib.load(file).items():
                found.append({"name": name, "family": family, **entry})
    return found


def lab_text(entry, language, rows):
    words = WORDS[language]
    if not entry.get("lab"):
        return words["not_measured"]
    head = [words["lab"], "", "{.numbers}", words["row"], "|---|---|---|---|---|"]
    return "\n".join(head + [rows[name] for name in entry["lab"]] + [rows["floor"]])


def listed(items):
    return "\n".join(f"- {item}" for item in items)


def parts(entry, language, rows):
    """What stands under each heading."""
    zh = language == "zh"
    up = "../../" if zh else "../"
    picture = entry["picture"]
    caption = entry["caption_zh"] if zh else entry["caption"]
    code = entry["code"].strip("\n")
    fence = "pycon" if code.startswith(">>>") else "cpp"
    return {
        "what": entry["what_zh"].strip() if zh else entry["what"].strip(),
        "formula": f"{WORDS[language]['symbols']}\n\n$$\n{entry['formula'].strip()}\n$$",
        "picture": f"![{caption}]({up}{picture})\n\n{caption}",
        "code": f"```{fence}\n{code}\n```",
        "properties": listed(entry["properties_zh"] if zh else entry["properties"]),
        "users": WORDS["zh"]["full"].format(name=entry["name"]) if zh else entry["users"].strip(),
        "pitfalls": listed(entry["pitfalls"]),
        "lab": lab_text(entry, language, rows),
        "papers": listed(entry["papers"]),
    }


def title_of(entry, language):
    """In Chinese a name that has none of its own says so, so that a search shows which page is which."""
    if language == "en":
        return entry["title"]
    return entry["title_zh"] if HAN.search(entry["title_zh"]) else entry["title_zh"] + "（中文）"


def page(entry, language, rows):
    text = parts(entry, language, rows)
    title = title_of(entry, language)
    out = [f"# {title}", "", WORDS[language]["other"].format(name=entry["name"])]
    for key, heading in HEADINGS[language].items():
        out += ["", f"## {heading}", "", text[key]] if heading else ["", text[key]]
    return "\n".join(out) + "\n"


def index(entries, language, docs):
    """The overview: docs/encodings/overview.md (or docs/zh/encodings/overview.md), with a table per family where it says {family}."""
    path = docs / ("zh" if language == "zh" else ".") / "encodings" / "overview.md"
    text = path.read_text(encoding="utf-8")
    suffix = "_zh" if language == "zh" else ""
    for family in FAMILIES:
        rows = ["| | |", "|---|---|"]
        for entry in entries:
            if entry["family"] == family:
                rows.append(f"| [{entry['title' + suffix]}]({entry['name']}.md) | {entry['brief' + suffix]} |")
        text = text.replace(f"<!-- {family} -->", "\n".join(rows))
    names = "\n".join(entry["name"] for entry in entries)
    return text + f"\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"


def pages(docs):
    """Path of each page below the site's source, and its text."""
    rows, entries = lab_rows(docs), encodings(docs)
    made = {}
    for language, folder in (("en", "encodings"), ("zh", "zh/encodings")):
        made[f"{folder}/overview.md"] = index(entries, language, docs)
        for entry in entries:
            made[f"{folder}/{entry['name']}.md"] = page(entry, language, rows)
    return made
