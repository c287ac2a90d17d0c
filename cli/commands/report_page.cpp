// SPDX-License-Identifier: Apache-2.0
// Writes the page: its style, its tables, and gnuplot's SVG inside it.
#include "commands/report_page.hpp"

#include <fmt/core.h>

#include <regex>

#include "plot/draw.hpp"

namespace phasor::cli {
namespace {

constexpr const char* kStyle =
    "body{font:16px/1.5 sans-serif;color:#222;background:#fff;max-width:860px;margin:2em auto;padding:0 1em}\n"
    "h1{font-size:1.7em}h2{margin-top:2em;border-bottom:1px solid #ccc}\n"
    "pre{background:#f5f5f5;padding:1em;overflow-x:auto;font-size:13px;line-height:1.4;white-space:pre-wrap}\n"
    "table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:1px 12px;text-align:right;border-bottom:1px solid #eee}th{position:sticky;top:0;background:#fff}\n"
    "td:last-child,th:last-child{text-align:left}tr.marked td{background:#fdf1e3}\n"
    "details{margin:1em 0}summary{cursor:pointer}figure{margin:1.5em 0}figure svg{max-width:100%;height:auto}\n"
    "figcaption{font-size:14px;color:#555}\n";

/// A drawn document as a part of a page: no prolog, and names that no other picture has.
std::string inlined(const std::string& svg, int number) {
  const std::size_t begin = svg.find("<svg");
  std::string part = begin == std::string::npos ? svg : svg.substr(begin);
  const std::string own = fmt::format("$1f{}_$2", number);
  part = std::regex_replace(part, std::regex(R"((\bid=['"])([\w-]+))"), own);
  part = std::regex_replace(part, std::regex(R"(((?:href=|url\()['"]?#)([\w-]+))"), own);
  part = std::regex_replace(part, std::regex("<title>Gnuplot</title>\\s*"), "");
  return std::regex_replace(part, std::regex("<desc>[^<]*</desc>\\s*"), "");
}

}  // namespace

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

void Page::table(const std::vector<std::vector<std::string>>& rows) {
  body_ += "<table>\n";
  for (const auto& row : rows) {
    const bool head = &row == &rows.front();
    body_ += !head && !row.back().empty() ? "<tr class=\"marked\">" : "<tr>";
    for (const std::string& cell : row) body_ += fmt::format("<{0}>{1}</{0}>", head ? "th" : "td", escaped(cell));
    body_ += "</tr>\n";
  }
  body_ += "</table>\n";
}

Status Page::figure(const Result<Figure>& figure, const std::string& words) {
  if (!figure.ok()) {
    paragraph(fmt::format("Not drawn: {}.", figure.status().message()));
    return {};
  }
  const auto drawn = draw(*figure, {.format = Format::svg});
  if (!drawn.ok()) return drawn.status();
  body_ += fmt::format("<figure role=\"img\" aria-label=\"{}\">\n{}\n<figcaption>{}</figcaption></figure>\n", escaped(figure->title),
                       inlined(*drawn, ++figures_), escaped(words));
  return {};
}

std::string Page::html() const {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<title>{0}</title>\n<style>\n{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n{2}</body>\n</html>\n",
      escaped(title_), kStyle, body_);
}

}  // namespace phasor::cli
