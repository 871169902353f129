//! The few HTML elements that the page needs. Text from the document is escaped exactly once, here.

use crate::markup::escape;
use crate::svg::Shape;
use crate::svg::palette::Palette;
use crate::tables::{Column, Line, Table};
use crate::view::facts::Fact;

/// A sentence: escaped, and no line breaks before a per cent sign.
fn prose(text: &str) -> String {
    escape(text).replace(" %", "\u{a0}%")
}

/// A section with its heading.
pub(super) fn section(id: &str, title: &str, body: &str) -> String {
    format!("<section id=\"{id}\">\n<h2>{}</h2>\n{body}</section>\n", escape(title))
}

pub(super) fn paragraph(text: &str) -> String {
    format!("<p>{}</p>\n", prose(text))
}

/// A list; nothing where it would be empty.
pub(super) fn list(class: &str, items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let items: String = items.iter().map(|item| format!("<li>{}</li>\n", prose(item))).collect();
    format!("<ul class=\"{class}\">\n{items}</ul>\n")
}

pub(super) fn facts(facts: &[Fact]) -> String {
    let pair = |(name, value): &Fact| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(value));
    format!("<dl class=\"facts\">\n{}</dl>\n", facts.iter().map(pair).collect::<String>())
}

/// A chart in both shapes with its caption and legend; nothing where there is nothing to draw.
pub(super) fn figure(title: &str, text: &str, legend: &str, draw: impl Fn(Shape) -> Option<String>) -> String {
    let (Some(wide), Some(narrow)) = (draw(Shape::Wide), draw(Shape::Narrow)) else {
        return String::new();
    };
    let (title, text) = (escape(title), escape(text));
    format!("<figure>\n<figcaption><b>{title}.</b> {text}</figcaption>\n{legend}{wide}\n{narrow}\n</figure>\n")
}

/// The legend stands in the page, not in the drawing: there it can wrap and never covers a curve.
pub(super) fn legend<'a>(names: impl IntoIterator<Item = &'a str>, palette: &Palette) -> String {
    let mut seen = Vec::new();
    let names = names.into_iter().filter(|name| {
        !seen.contains(name) && {
            seen.push(*name);
            true
        }
    });
    legend_of(names.map(|name| (palette.class(name), name)))
}

/// A legend of classes with their names.
pub(super) fn legend_of<'a>(entries: impl IntoIterator<Item = (String, &'a str)>) -> String {
    let item = |(class, name): (String, &str)| format!("<li>{}{}</li>\n", swatch(&class), escape(name));
    format!("<ul class=\"legend\">\n{}</ul>\n", entries.into_iter().map(item).collect::<String>())
}

/// A short piece of a path's curve.
fn swatch(class: &str) -> String {
    format!("<svg viewBox=\"0 0 26 8\" aria-hidden=\"true\"><path class=\"curve {class}\" d=\"M1 4L25 4\"/></svg>")
}

/// A table in a container of its own, which scrolls where the page is too narrow for it.
pub(super) fn table(table: &Table, palette: &Palette) -> String {
    let head: String = table.columns.iter().map(head).collect();
    let body: String = table.lines.iter().map(|line| self::line(line, &table.columns, palette)).collect();
    let notes = list("notes", &table.notes);
    format!(
        "<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n\
         </table></div>\n{notes}"
    )
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

fn line(line: &Line, columns: &[Column], palette: &Palette) -> String {
    match line {
        Line::Heading(heading) if heading.is_empty() => String::new(),
        Line::Heading(heading) => {
            let span = columns.len();
            format!("<tr class=\"group\"><th class=\"w\" colspan=\"{span}\">{}</th></tr>\n", escape(heading))
        }
        Line::Cells { cells, series, best } => {
            let swatch = series.as_ref().map(|name| swatch(&palette.class(name))).unwrap_or_default();
            let cell = |(i, (cell, column)): (usize, (&String, &Column))| match i {
                0 => format!("<th scope=\"row\"{}>{swatch}{}</th>", class(column), escape(cell)),
                _ => format!("<td{}>{}</td>", class(column), escape(cell)),
            };
            let cells: String = cells.iter().zip(columns).enumerate().map(cell).collect();
            format!("<tr{}>{cells}</tr>\n", if *best { " class=\"best\"" } else { "" })
        }
    }
}
