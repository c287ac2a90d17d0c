# SPDX-License-Identifier: Apache-2.0
"""One page per encoding, English and Chinese, from docs/encodings/*.toml by one template. What the lab measured is taken from docs/lab/summary.json."""
import json
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
        "lab": "Loss in nats per token on the last 512 tokens of long documents, of a small model that reads them at so many times its trained length: mean over seeds, ± 95 % where there are several. [The lab](../lab.md) has the conditions.",
        "row": "encoding",
        "other": "[中文](../zh/encodings/{name}.md)",
    },
    "zh": {
        "symbols": "记号：$m$ 是 query 的位置，$n$ 是 key 的位置，$r = m - n$ 是距离；一个头有 $D$ 个通道，其中 $R$ 个参与旋转；$i$ 是从 0 数起的通道对，$h$ 是从 0 数起的头；$B$ 是底数。",
        "not_measured": "[实验](../../lab.md)中没有测。",
        "lab": "小模型以训练长度的若干倍读长文档时，最后 512 个 token 的损失（nat 每 token，种子均值；有多个种子时 ± 95 % 区间）。条件见[实验](../../lab.md)。",
        "row": "编码",
        "other": "[English](../../encodings/{name}.md)",
        "full": "谁在用、常见的坑：见[英文页](../../encodings/{name}.md)。",
    },
}
HAN = re.compile(r"[\u3400-\u9fff]")
FAMILIES = ["additive", "rotary", "scaling", "maps", "bias", "tables"]


LAB_MULTIPLES = (1, 2, 4, 8, 16, 64)


def lab_rows(docs):
    """What the lab measured on real text, by label: a row of cells each, and the head of the table."""
    text = json.loads((docs / "lab" / "summary.json").read_text(encoding="utf-8"))["text"]
    shown = [number for number, multiple in enumerate(text["multiples"]) if multiple in LAB_MULTIPLES]

    def cell(loss, interval):
        return "–" if loss is None else f"{loss:.3f}" + ("" if interval is None else f" ± {interval:.3f}")

    rows = {label: [cell(one["loss"][i], one["interval"][i]) for i in shown] for label, one in text["labels"].items()}
    return rows, [f"{text['multiples'][i]:g}x" for i in shown]


def encodings(docs):
    """Every encoding in the order of the files and the tables in them."""
    found = []
    for family in FAMILIES:
        with open(docs / "encodings" / f"{family}.toml", "rb") as file:
            for name, entry in tomllib.load(file).items():
                found.append({"name": name, "family": family, **entry})
    return found


def lab_text(entry, language, rows):
    words, (by_label, head) = WORDS[language], rows
    found = [[name, *by_label[name]] for name in entry.get("lab", []) if name in by_label]
    if not found:
        return words["not_measured"]
    lines = [[words["row"], *head], ["---"] * (1 + len(head)), *found]
    return "\n".join([words["lab"], "", "{.numbers}", *("| " + " | ".join(line) + " |" for line in lines)])


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
