//! Text of generated code: lines, documentation, names.

use std::collections::BTreeSet;

/// The width to which rustfmt formats here; generated code is not formatted again.
const WIDTH: usize = 120;

/// A file that grows.
#[derive(Debug, Default)]
pub(super) struct Out {
    text: String,
}

impl Out {
    /// A line, with its indentation in steps of four spaces.
    pub(super) fn line(&mut self, depth: usize, text: impl AsRef<str>) {
        let text = text.as_ref();
        if !text.is_empty() {
            self.text.extend(std::iter::repeat_n("    ", depth));
            self.text.push_str(text);
        }
        self.text.push('\n');
    }

    /// An empty line.
    pub(super) fn gap(&mut self) {
        self.text.push('\n');
    }

    /// Documentation, wrapped. Markup in it is escaped.
    pub(super) fn doc(&mut self, depth: usize, text: &str) {
        self.comment(depth, "///", text);
    }

    /// Documentation of a file.
    pub(super) fn file_doc(&mut self, text: &str) {
        self.comment(0, "//!", text);
    }

    fn comment(&mut self, depth: usize, mark: &str, text: &str) {
        let mut line = String::new();
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            if !line.is_empty() && 4 * depth + mark.len() + 2 + line.chars().count() + word.chars().count() > WIDTH {
                self.line(depth, format!("{mark} {line}"));
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.line(depth, format!("{mark} {line}").trim_end());
    }

    /// The section on errors.
    pub(super) fn errors(&mut self, depth: usize, when: &str) {
        self.line(depth, "///");
        self.line(depth, "/// # Errors");
        self.doc(depth, when);
    }

    /// The beginning of a function, on several lines if one is too short.
    pub(super) fn function(&mut self, depth: usize, name: &str, parameters: &[&str], returns: &str) {
        let returns = if returns.is_empty() { String::new() } else { format!(" -> {returns}") };
        let line = format!("{name}({}){returns} {{", parameters.join(", "));
        if 4 * depth + line.len() <= WIDTH {
            return self.line(depth, line);
        }
        self.line(depth, format!("{name}("));
        for parameter in parameters {
            self.line(depth + 1, format!("{parameter},"));
        }
        self.line(depth, format!("){returns} {{"));
    }

    /// A call, on several lines if one is too short.
    pub(super) fn call(&mut self, depth: usize, head: &str, arguments: &[&str], end: &str) {
        let line = format!("{head}({}){end}", arguments.join(", "));
        if 4 * depth + line.len() <= WIDTH {
            return self.line(depth, line);
        }
        self.line(depth, format!("{head}("));
        for argument in arguments {
            self.line(depth + 1, format!("{argument},"));
        }
        self.line(depth, format!("){end}"));
    }

    /// `head = tail;`, on two lines if one is too short.
    pub(super) fn assign(&mut self, depth: usize, head: &str, tail: &str) {
        let line = format!("{head} = {tail};");
        if 4 * depth + line.len() <= WIDTH {
            return self.line(depth, line);
        }
        self.line(depth, format!("{head} ="));
        self.line(depth + 1, format!("{tail};"));
    }

    /// Bytes so far.
    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    /// Adds what another one has.
    pub(super) fn append(&mut self, other: &Self) {
        self.text.push_str(&other.text);
    }

    /// The text.
    pub(super) fn finish(self) -> String {
        self.text
    }

    /// Returns whether the file has these characters.
    pub(super) fn has(&self, text: &str) -> bool {
        self.text.contains(text)
    }
}

/// Characters that change the direction of text or are not seen: what is read would not be what is there, and rustc refuses some of them.
fn is_unseen(letter: char) -> bool {
    matches!(letter, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(letter, '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A description as documentation: without markup, control characters and characters that are not seen, with a period.
pub(super) fn described(text: &str, otherwise: &str) -> String {
    if text.is_empty() {
        return format!("{otherwise}.");
    }
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars().filter(|letter| !letter.is_control() && !is_unseen(*letter)) {
        if "[]<>`*_\\".contains(letter) {
            plain.push('\\');
        }
        plain.push(letter);
    }
    if !plain.ends_with(['.', '!', '?']) {
        plain.push('.');
    }
    plain
}

/// `SecurityID` as `security_id`.
pub(super) fn snake(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut snake = String::with_capacity(name.len() + 8);
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| letters[before]);
        let begins_word = letter.is_ascii_uppercase()
            && before.is_some_and(|before| {
                before.is_ascii_lowercase()
                    || before.is_ascii_digit()
                    || (before.is_ascii_uppercase()
                        && letters.get(at + 1).is_some_and(|next| next.is_ascii_lowercase()))
            });
        if begins_word || *letter == '_' {
            snake.push('_');
        }
        if *letter != '_' {
            snake.push(letter.to_ascii_lowercase());
        }
    }
    let words: Vec<&str> = snake.split('_').filter(|word| !word.is_empty()).collect();
    let snake = words.join("_");
    if snake.starts_with(|letter: char| letter.is_ascii_digit()) { format!("n{snake}") } else { snake }
}

/// `md_entry` as `MdEntry`.
pub(super) fn camel(name: &str) -> String {
    let capital = |word: &str| word[..1].to_ascii_uppercase() + &word[1..];
    snake(name).split('_').map(capital).collect()
}

/// Names that generated code uses itself: they count as taken.
const PRELUDE: &[&str] = &["Err", "None", "Ok", "Option", "Result", "Self", "Some"];

/// Words that are no names in Rust 2024.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Names of one scope: each is there once.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    /// A scope in which these are taken.
    pub(super) fn with(taken: &[&str]) -> Self {
        Self { taken: taken.iter().map(|name| (*name).to_owned()).collect() }
    }

    /// The name, with a number if it is taken, and with a letter if it is a keyword.
    pub(super) fn add(&mut self, name: String) -> String {
        self.add_with(name, "")
    }

    /// The same for a name that is there with and without this ending.
    pub(super) fn add_with(&mut self, name: String, ending: &str) -> String {
        let name = if KEYWORDS.contains(&name.as_str()) { format!("{name}_") } else { name };
        let mut unique = name.clone();
        for number in 2.. {
            let both = [unique.clone(), format!("{unique}{ending}")];
            if both.iter().all(|one| !self.taken.contains(one) && !PRELUDE.contains(&one.as_str())) {
                self.taken.extend(both);
                break;
            }
            unique = format!("{name}{number}");
        }
        unique
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_into_words() {
        let names = [("SecurityID", "security_id"), ("NoMDEntries", "no_md_entries"), ("PRICE9", "price9")];
        let more = [("groupSize8Byte", "group_size8_byte"), ("_1a__B", "n1a_b"), ("a_b", "a_b"), ("ABc", "a_bc")];
        for (name, expected) in names.into_iter().chain(more) {
            assert_eq!(snake(name), expected);
        }
        assert_eq!(camel("NoMDEntries"), "NoMdEntries");
        assert_eq!(camel("groupSize8Byte"), "GroupSize8Byte");
    }

    #[test]
    fn names_of_a_scope_differ_and_are_no_keywords() {
        let mut names = Names::with(&["decode"]);
        let added = ["type", "type", "decode", "x", "x", "x"].map(|name| names.add(name.to_owned()));
        assert_eq!(added, ["type_", "type_2", "decode2", "x", "x2", "x3"]);
        assert_eq!(names.add("Option".to_owned()), "Option2", "generated code uses that of Rust");
        let twins = ["a", "b_encoder", "b", "a_encoder"].map(|name| names.add_with(name.to_owned(), "_encoder"));
        assert_eq!(twins, ["a", "b_encoder", "b2", "a_encoder2"]);
    }

    #[test]
    fn descriptions_cannot_be_markup_or_code() {
        assert_eq!(described("a [b](c) <d> `e`\u{7}", ""), "a \\[b\\](c) \\<d\\> \\`e\\`.");
        assert_eq!(described("", "The field `Price`"), "The field `Price`.");
        assert_eq!(described("not \u{202e}lla\u{202c} \u{2066}seen\u{200b}", ""), "not lla seen.");
        let mut out = Out::default();
        out.doc(1, &"word ".repeat(40));
        let lines: Vec<String> = out.finish().lines().map(str::to_owned).collect();
        assert!(lines.len() == 2 && lines.iter().all(|line| line.starts_with("    /// word") && line.len() <= 120));
    }

    #[test]
    fn long_lines_are_broken_where_rustfmt_breaks_them() {
        let mut out = Out::default();
        out.function(1, &format!("pub fn {}", "f".repeat(90)), &["&self"], "Result<Abcdef, Gh>");
        out.assign(0, &format!("type {}", "T".repeat(100)), "Result<Abcdef, Gh>");
        let text = out.finish();
        assert!(text.contains("(\n        &self,\n    ) -> Result<Abcdef, Gh> {\n"), "{text}");
        assert!(text.contains(" =\n    Result<Abcdef, Gh>;\n"), "{text}");
    }
}
