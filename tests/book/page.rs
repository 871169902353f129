//! A page: what it tells to run, where it leads.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use std::fs;
use std::path::{Path, PathBuf};

/// A page of Markdown.
pub(crate) struct Page {
    /// Its path in the repository.
    pub(crate) name: String,
    /// Its blocks of commands.
    pub(crate) blocks: Vec<Block>,
    /// Code within its text.
    pub(crate) codes: Vec<Code>,
    pub(crate) links: Vec<Link>,
    /// The names by which its headings can be linked to.
    pub(crate) anchors: Vec<String>,
}

/// Commands: ```sh
pub(crate) struct Block {
    pub(crate) place: String,
    pub(crate) text: String,
    pub(crate) way: Way,
}

/// How a block is treated, by the comment before it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// It is run to its end. That is good with code 0, and with these: `<!-- may end with 3 -->`; it prints at least this:
    /// `<!-- shows WORDS -->`
    Run { may_end_with: Vec<i32>, shows: String },
    /// It is started on the other host, and goes on until the page is done: `<!-- on the other host -->`
    OtherHost,
    /// It is not run, for this reason: `<!-- not run: REASON -->`
    NotRun(String),
}

pub(crate) struct Code {
    pub(crate) place: String,
    pub(crate) text: String,
}

pub(crate) struct Link {
    pub(crate) place: String,
    pub(crate) to: String,
}

/// The book's own pages: what is linked into it from elsewhere in the repository has tests of its own.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())).flatten() {
        let (path, kind) = (entry.path(), entry.file_type().expect("it has a type"));
        if kind.is_dir() {
            found.extend(files(&path));
        } else if kind.is_file() && path.extension().is_some_and(|ending| ending == "md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

impl Page {
    pub(crate) fn read(root: &Path, file: &Path) -> Self {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let name = file.strip_prefix(root).expect("it is ours").display().to_string();
        Self::parse(&name, &text)
    }

    pub(crate) fn parse(name: &str, text: &str) -> Self {
        let mut page = Self {
            name: name.to_owned(),
            blocks: Vec::new(),
            codes: Vec::new(),
            links: Vec::new(),
            anchors: Vec::new(),
        };
        let mut reader = Reader { page: &mut page, text, comment: String::new(), block: None, heading: None };
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            reader.take(event, range.start);
        }
        page
    }
}

/// The state between two events of the parser.
struct Reader<'a> {
    page: &'a mut Page,
    text: &'a str,
    /// The comment that has just been read.
    comment: String,
    block: Option<Block>,
    heading: Option<String>,
}

impl Reader<'_> {
    fn take(&mut self, event: Event<'_>, at: usize) {
        let place = format!("{}, line {}", self.page.name, 1 + self.text[..at].matches('\n').count());
        match event {
            Event::Html(html) | Event::InlineHtml(html) => return self.comment.push_str(&html),
            Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => return,
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) if &*language == "sh" => {
                let way = way(&place, &self.comment);
                self.block = Some(Block { place, text: String::new(), way });
            }
            Event::End(TagEnd::CodeBlock) => self.page.blocks.extend(self.block.take()),
            Event::Start(Tag::Heading {
                level: HeadingLevel::H1 | HeadingLevel::H2 | HeadingLevel::H3 | HeadingLevel::H4,
                ..
            }) => {
                self.heading = Some(String::new());
            }
            Event::End(TagEnd::Heading(_)) => self.page.anchors.extend(self.heading.take().map(|text| anchor(&text))),
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                self.page.links.push(Link { place, to: dest_url.to_string() });
            }
            Event::Text(text) => {
                self.block.iter_mut().for_each(|block| block.text.push_str(&text));
                self.heading.iter_mut().for_each(|heading| heading.push_str(&text));
            }
            Event::Code(text) => {
                self.heading.iter_mut().for_each(|heading| heading.push_str(&text));
                self.page.codes.push(Code { place, text: text.to_string() });
            }
            _ => {}
        }
        self.comment.clear();
    }
}

/// What a comment before a block says.
fn way(place: &str, comment: &str) -> Way {
    let Some(said) = comment.trim().strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->")) else {
        assert!(comment.trim().is_empty(), "{place}: {comment:?} before a block of commands is more than one comment");
        return Way::Run { may_end_with: Vec::new(), shows: String::new() };
    };
    match said.trim() {
        "on the other host" => Way::OtherHost,
        said => {
            known(said).unwrap_or_else(|| panic!("{place}: {said:?} before a block of commands says nothing known"))
        }
    }
}

fn known(said: &str) -> Option<Way> {
    if let Some(reason) = said.strip_prefix("not run: ") {
        return Some(Way::NotRun(reason.to_owned()));
    }
    if let Some(words) = said.strip_prefix("shows ") {
        return Some(Way::Run { may_end_with: Vec::new(), shows: words.to_owned() });
    }
    let codes = said.strip_prefix("may end with ")?.split(',').map(|code| code.trim().parse().ok());
    Some(Way::Run { may_end_with: codes.collect::<Option<_>>()?, shows: String::new() })
}

/// The name of a heading in links, as mdBook and GitHub make it.
fn anchor(heading: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | ' ');
    heading.to_lowercase().chars().filter(kept).map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

#[test]
fn a_page_is_read() {
    let text = "# A `b` c, d\n\n<!-- not run: needs a NIC -->\n```sh\nmake demo\n```\n\n```text\nno\n```\n\n[x](y.md#z) `sidestep ps`\n\n\
                <!-- may end with 3, 4 -->\n```sh\ntrue\n```\n\n<!-- shows a b -->\n```sh\nls\n```\n<!-- on the other host -->\n```sh\ncat\n```\n";
    let page = Page::parse("p", text);
    let ways: Vec<&Way> = page.blocks.iter().map(|block| &block.way).collect();
    let run = |codes: &[i32], shows: &str| Way::Run { may_end_with: codes.to_vec(), shows: shows.to_owned() };
    assert_eq!(ways, [&Way::NotRun("needs a NIC".to_owned()), &run(&[3, 4], ""), &run(&[], "a b"), &Way::OtherHost]);
    assert_eq!((page.blocks[0].text.as_str(), page.blocks[0].place.as_str()), ("make demo\n", "p, line 4"));
    assert_eq!((page.links[0].to.as_str(), page.anchors[0].as_str()), ("y.md#z", "a-b-c-d"));
    assert!(page.codes.iter().any(|code| code.text == "sidestep ps"));
}
