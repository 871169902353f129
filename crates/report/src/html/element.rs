//! The few HTML elements that the page needs. Text from the document is escaped exactly once, here.

use crate::findings::quantity::ABSENT;
use crate::findings::{Section, family::Family};
use crate::markup::escape;
use crate::number::MISSING;
use crate::svg;
use crate::tables::{Column, Line, Table};
use crate::view::facts::Fact;

/// A sentence: escaped, no line breaks before a unit, and no `n/a`.
pub(super) fn prose(text: &str) -> String {
    escape(text).replace(" %", "\u{a0}%").replace(MISSING, "not known")
}

/// A heading: [`prose`], and no line breaks inside of names such as `kernel-spin`.
pub(super) fn heading(text: &str) -> String {
    let is_name = |word: &str| word.len() < 30 && word.trim_matches(|c: char| !c.is_alphanumeric()).contains('-');
    let word = |word: &str| match is_name(word) {
        true => format!("<span class=\"name-of\">{word}</span>"),
        false => word.to_owned(),
    };
    prose(text).split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// A section with its question and its finding.
pub(super) fn section(found: &Section, body: &str) -> String {
    let (id, heading, question) = (&found.id, heading(&found.heading), prose(&found.question));
    let question = if question.is_empty() { String::new() } else { format!("<p class=\"question\">{question}</p>\n") };
    format!(
        "<section id=\"{id}\" aria-labelledby=\"{id}-h\">\n{question}<h2 id=\"{id}-h\">{heading}</h2>\n{body}</section>\n"
    )
}

/// Small sentences below a picture; nothing where there are none.
pub(super) fn remarks<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    let items: String = texts.into_iter().map(|text| format!("<li>{}</li>\n", prose(text))).collect();
    if items.is_empty() { items } else { format!("<ul class=\"remarks\">\n{items}</ul>\n") }
}

pub(super) fn facts(facts: &[Fact]) -> String {
    let pair = |(name, value): &Fact| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), prose(value));
    format!("<dl class=\"facts\">\n{}</dl>\n", facts.iter().map(pair).collect::<String>())
}

/// A part that is folded, its main fact beside its name; nothing where it has no body.
pub(super) fn folded(name: &str, fact: &str, body: &str, open: bool) -> String {
    if body.is_empty() {
        return String::new();
    }
    let (name, fact, open) = (escape(name), prose(fact), if open { " open" } else { "" });
    format!("<details{open}>\n<summary><b>{name}</b> <span>{fact}</span></summary>\n{body}</details>\n")
}

/// A picture with a heading and a caption; nothing where there is nothing to draw.
pub(super) fn figure(title: &str, drawings: &[Option<String>], caption: &str) -> String {
    let drawn: String =
        drawings.iter().flatten().map(|drawing| format!("<div class=\"frame\">{drawing}</div>\n")).collect();
    if drawn.is_empty() {
        return String::new();
    }
    let caption =
        if caption.is_empty() { String::new() } else { format!("<figcaption>{}</figcaption>\n", prose(caption)) };
    format!("<figure>\n<h3>{}</h3>\n{drawn}{caption}</figure>\n", prose(title))
}

/// Pictures side by side, with how to read them: in the place that is left, or below.
pub(super) fn grid(figures: &[String], how: &str) -> String {
    let drawn = figures.iter().filter(|figure| !figure.is_empty()).count();
    let how = format!("<p class=\"how\">{}</p>\n", prose(how));
    match drawn {
        0 => String::new(),
        n if n > 1 && n % 2 == 1 => {
            format!("<div class=\"charts of-{}\">\n{}{how}</div>\n", n.min(3), figures.concat())
        }
        n => format!("<div class=\"charts of-{}\">\n{}</div>\n{how}", n.min(3), figures.concat()),
    }
}

/// The colours of families.
pub(super) fn key(families: &[Family]) -> String {
    let item =
        |family: &Family| format!("<li><i class=\"swatch {}\"></i>{}</li>", svg::class(*family), escape(family.name()));
    format!("<ul class=\"key\">{}</ul>\n", families.iter().map(item).collect::<String>())
}

/// A table in a container of its own, which scrolls where the page is too narrow for it.
pub(super) fn table(name: &str, table: &Table) -> String {
    let head: String = table.columns.iter().map(head).collect();
    let body: String = table.lines.iter().map(|line| self::line(line, &table.columns)).collect();
    let notes = remarks(&table.notes);
    format!("{}<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n{notes}", scroll(name))
}

/// The start of a container that scrolls sideways, for the keyboard, too.
pub(super) fn scroll(name: &str) -> String {
    format!("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">", prose(name))
}

fn class(column: &Column) -> &'static str {
    if column.words { " class=\"w\"" } else { "" }
}

/// The unit stands under the name: the columns stay narrow.
fn head(column: &Column) -> String {
    let (name, unit) = match column.head.rsplit_once(' ') {
        Some((name, unit)) if !column.words => (name, format!("<span>{}</span>", escape(unit))),
        _ => (column.head.as_str(), String::new()),
    };
    format!("<th scope=\"col\"{}>{}{unit}</th>", class(column), escape(name))
}

fn line(line: &Line, columns: &[Column]) -> String {
    match line {
        Line::Heading(heading) if heading.is_empty() => String::new(),
        Line::Heading(heading) => {
            let span = columns.len();
            format!(
                "<tr class=\"group\"><th class=\"w\" colspan=\"{span}\" scope=\"colgroup\">{}</th></tr>\n",
                prose(heading)
            )
        }
        Line::Cells { cells, best, .. } => {
            let cell = |(i, (cell, column)): (usize, (&String, &Column))| match i {
                0 => format!("<th scope=\"row\"{}>{}</th>", class(column), shown(cell)),
                _ => format!("<td{}>{}</td>", class(column), shown(cell)),
            };
            let cells: String = cells.iter().zip(columns).enumerate().map(cell).collect();
            format!("<tr{}>{cells}</tr>\n", if *best { " class=\"best\"" } else { "" })
        }
    }
}

fn shown(cell: &str) -> String {
    if cell == "-" { ABSENT.into() } else { escape(cell).replace(MISSING, ABSENT) }
}
