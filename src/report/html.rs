//! Text becomes HTML: the one place that escapes.

use std::fmt::Write as _;

/// `text` for use between tags and in quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // Control characters are not allowed in HTML, whatever a model emits.
            other if other.is_control() && !matches!(other, '\n' | '\t') => escaped.push('\u{FFFD}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A section with a heading that can be linked to; `body` is HTML.
pub(super) fn section(id: &str, heading: &str, body: &str) -> String {
    format!("<section aria-labelledby=\"{id}\">\n<h2 id=\"{id}\">{}</h2>\n{body}</section>\n", escape(heading))
}

/// A closed part that opens on demand; `body` is HTML.
pub(super) fn details(summary: &str, body: &str) -> String {
    format!("<details><summary>{}</summary>\n{body}</details>\n", escape(summary))
}

/// A paragraph of plain text.
pub(super) fn paragraph(class: &str, text: &str) -> String {
    format!("<p class=\"{class}\">{}</p>\n", escape(text))
}

/// A table whose first column names the row; `head` is text, cells are HTML.
pub(super) fn table(caption: &str, head: &[&str], rows: &[Vec<String>]) -> String {
    let mut html = format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table><caption>{0}</caption>\n<thead><tr>",
        escape(caption)
    );
    for cell in head {
        // Writing to a string cannot fail, here and below.
        let _ = write!(html, "<th scope=\"col\">{}</th>", escape(cell));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        html.push_str("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let _ = if column == 0 {
                write!(html, "<th scope=\"row\">{cell}</th>")
            } else {
                write!(html, "<td>{cell}</td>")
            };
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
    html
}
