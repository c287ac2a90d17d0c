# SPDX-License-Identifier: Apache-2.0
"""Search in English and Chinese at once: Latin words by their stems, Han characters alone and in twos, in the index and in the question alike.
Functions are found by their names, not once more for each parameter."""
import re

from sphinx.domains.c import CDomain
from sphinx.domains.cpp import CPPDomain
from sphinx.search.en import SearchEnglish

HAN = re.compile(r"[\u3400-\u9fff]+")
WORD = re.compile(r"\w+")


class Bigrams(SearchEnglish):
    lang = "bigrams"
    language_name = "English and Chinese"
    js_splitter_code = """
function splitQuery(query) {
  const words = [];
  for (const word of query.split(/[^\\p{Letter}\\p{Number}_]+/gu)) {
    for (const part of word.split(/([\\u3400-\\u9fff]+)/u)) {
      if (part === "") continue;
      if (!/^[\\u3400-\\u9fff]{3,}$/u.test(part)) { words.push(part); continue; }
      for (let i = 0; i + 1 < part.length; ++i) words.push(part.slice(i, i + 2));
    }
  }
  return words;
}
"""

    def split(self, text):
        latin = WORD.findall(HAN.sub(" ", text))
        han = [run[i : i + n] for run in HAN.findall(text) for n in (1, 2) for i in range(len(run) - n + 1)]
        return latin + han


def without_parameters(domain):
    """The domain's things, but for parameters of functions and of templates."""
    every = domain.get_objects
    domain.get_objects = lambda self: (thing for thing in every(self) if not thing[2].endswith("Param"))


def setup(app):
    app.add_search_language(Bigrams)
    without_parameters(CDomain)
    without_parameters(CPPDomain)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
