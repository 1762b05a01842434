//! Markup that is well-formed by construction: text is escaped where it becomes markup, and an
//! element closes what it opens.

/// Finished markup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Markup(String);

/// What stands in a cell of a table.
pub(super) enum Cell {
    /// Words.
    Text(String),
    /// A number, aligned to the right.
    Number(String),
}

impl Markup {
    /// Text that cannot be taken for markup.
    pub(super) fn text(text: impl AsRef<str>) -> Markup {
        Markup(escaped(text.as_ref()))
    }

    /// An element with content on one line.
    pub(super) fn element(
        name: &'static str,
        attributes: &[(&'static str, String)],
        content: Markup,
    ) -> Markup {
        let mut text = format!("<{name}");
        for (attribute, value) in attributes {
            text.push_str(&format!(" {attribute}=\"{}\"", escaped(value)));
        }
        if content.0.is_empty() && EMPTY.contains(&name) {
            text.push_str("/>\n");
        } else {
            text.push_str(&format!(">{}</{name}>\n", content.0));
        }
        Markup(text)
    }

    /// An element with nothing but text.
    pub(super) fn plain(name: &'static str, text: impl AsRef<str>) -> Markup {
        Markup::element(name, &[], Markup::text(text))
    }

    /// A drawing that is finished markup already.
    pub(super) fn drawing(svg: &str) -> Markup {
        Markup(svg.to_owned())
    }

    /// The markup.
    pub(super) fn into_string(self) -> String {
        self.0
    }
}

impl FromIterator<Markup> for Markup {
    fn from_iter<T: IntoIterator<Item = Markup>>(parts: T) -> Markup {
        Markup(parts.into_iter().map(|part| part.0).collect())
    }
}

/// Elements that never hold anything here.
const EMPTY: [&str; 4] = ["meta", "path", "rect", "circle"];

/// Text in which nothing is markup; what HTML has no place for is left out.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other if other.is_whitespace() => escaped.push(' '),
            other if other.is_control() || is_direction(other) => {}
            other => escaped.push(other),
        }
    }
    escaped
}

/// Characters that turn the direction of what follows, so that it reads as something else.
fn is_direction(character: char) -> bool {
    matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A section with its heading.
pub(super) fn section(id: &'static str, title: &str, content: Markup) -> Markup {
    let body = [Markup::plain("h2", title), content].into_iter().collect();
    Markup::element("section", &[("id", id.to_owned())], body)
}

/// A paragraph.
pub(super) fn paragraph(text: impl AsRef<str>) -> Markup {
    Markup::plain("p", text)
}

/// A drawing and what it shows.
pub(super) fn figure(drawing: Markup, caption: &str) -> Markup {
    let content = [drawing, Markup::plain("figcaption", caption)].into_iter().collect();
    Markup::element("figure", &[], content)
}

/// A table with a header.
pub(super) fn table<const N: usize>(header: [&str; N], rows: Vec<[Cell; N]>) -> Markup {
    let numbers: Vec<bool> = (0..N)
        .map(|column| matches!(rows.first(), Some(row) if matches!(row[column], Cell::Number(_))))
        .collect();
    let head = header.iter().zip(&numbers);
    let head = head.map(|(name, number)| cell("th", name, *number)).collect();
    let row = |row: &[Cell; N]| {
        let cells = row.iter().map(|found| match found {
            Cell::Text(text) => cell("td", text, false),
            Cell::Number(text) => cell("td", text, true),
        });
        Markup::element("tr", &[], cells.collect())
    };
    let parts = [
        Markup::element("thead", &[], Markup::element("tr", &[], head)),
        Markup::element("tbody", &[], rows.iter().map(row).collect()),
    ];
    Markup::element("table", &[], parts.into_iter().collect())
}

fn cell(name: &'static str, text: &str, number: bool) -> Markup {
    let attributes = [("class", "number".to_owned())];
    Markup::element(name, if number { &attributes } else { &[] }, Markup::text(text))
}

/// Names and what they are.
pub(super) fn facts(facts: &[(&str, String)]) -> Markup {
    let fact = |(name, value): &(&str, String)| {
        let parts = [Markup::plain("th", name), Markup::plain("td", value)];
        Markup::element("tr", &[], parts.into_iter().collect())
    };
    let body = Markup::element("tbody", &[], facts.iter().map(fact).collect());
    Markup::element("table", &[("class", "facts".to_owned())], body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_attributes_cannot_become_markup() {
        let evil = "</td><script>alert('1')</script>\n&\u{7}\u{202e}\"";
        let wanted = "&lt;/td&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp;&quot;";
        assert_eq!(Markup::plain("td", evil).into_string(), format!("<td>{wanted}</td>\n"));
        let element = Markup::element("td", &[("class", evil.to_owned())], Markup::default());
        assert_eq!(element.into_string(), format!("<td class=\"{wanted}\"></td>\n"));
    }

    #[test]
    fn columns_of_numbers_are_aligned_with_their_names() {
        let row = [Cell::Text("a".to_owned()), Cell::Number("1".to_owned())];
        let text = table(["x", "y"], vec![row]).into_string();
        assert!(text.contains("<th>x</th>") && text.contains("<th class=\"number\">y</th>"));
        assert!(text.contains("<td>a</td>") && text.contains("<td class=\"number\">1</td>"));
    }
}
