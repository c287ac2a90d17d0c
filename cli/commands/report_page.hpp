// SPDX-License-Identifier: Apache-2.0
// The HTML of a report: pieces that need nothing from outside the page.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "phasor/result.hpp"
#include "plot/canvas.hpp"

namespace phasor::cli {

/// Text as HTML has it.
std::string escaped(const std::string& text);

/// Builds one self-contained page, piece by piece.
class Page {
 public:
  explicit Page(std::string title) : title_(std::move(title)) {}

  void heading(const std::string& text) { body_ += "<h2>" + escaped(text) + "</h2>\n"; }
  void subheading(const std::string& text) { body_ += "<h3>" + escaped(text) + "</h3>\n"; }
  void paragraph(const std::string& text) { body_ += "<p>" + escaped(text) + "</p>\n"; }
  void preformatted(const std::string& text) { body_ += "<pre>" + escaped(text) + "</pre>\n"; }
  /// Rows of cells, the first row the head; a row whose last cell is empty is plain, else marked.
  void table(const std::vector<std::vector<std::string>>& rows);
  /// Draws it, with words below; an error of gnuplot is an error here. A figure that could not be made becomes a sentence.
  Status figure(const Result<Figure>& figure, const std::string& words);

  std::string html() const;

 private:
  std::string title_;
  std::string body_;
  int figures_ = 0;
};

}  // namespace phasor::cli
