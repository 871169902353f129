//! Links of pages: to files that exist, of the book within the book, and to headings that exist.

use crate::page::{self, Link, Page};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

thread_local! {
    /// The headings of pages that were linked to: a long page is read once.
    static HEADINGS: RefCell<BTreeMap<PathBuf, Vec<String>>> = const { RefCell::new(BTreeMap::new()) };
}

/// Wrong links of the book's pages, also of those that come from elsewhere in the repository.
pub(crate) fn of_book(root: &Path, source: &Path) -> Vec<String> {
    let mut files = page::files(source);
    for name in ["SPEC.md", "THREATS.md", "docs/checks.md", "docs/run-options.md", "docs/onload.md", "docs/programs.md"]
    {
        files.push(source.join(name));
    }
    files.extend(std::fs::read_dir(source.join("docs/decisions")).unwrap().flatten().map(|entry| entry.path()));
    let mut wrong = Vec::new();
    for file in files {
        let page = Page::read(root, &file);
        wrong.extend(page.links.iter().filter_map(|link| fault(root, source, &file, link)));
    }
    wrong
}

/// Wrong links of a page outside of the book.
pub(crate) fn of_file(root: &Path, file: &Path) -> Vec<String> {
    Page::read(root, file).links.iter().filter_map(|link| fault(root, root, file, link)).collect()
}

/// Why a link leads nowhere within `top`.
fn fault(root: &Path, top: &Path, file: &Path, link: &Link) -> Option<String> {
    if link.to.contains("://") || link.to.starts_with("mailto:") {
        return None;
    }
    let (path, heading) = link.to.split_once('#').unwrap_or((&link.to, ""));
    let target = match path {
        "" => file.to_owned(),
        path => plain(&file.parent()?.join(path)),
    };
    if !target.starts_with(top) {
        return Some(format!("{}: {} leads out of the book: its readers have no such file", link.place, link.to));
    }
    if !target.exists() {
        return Some(format!("{}: there is no {}", link.place, link.to));
    }
    let is_page = target.extension().is_some_and(|ending| ending == "md");
    if heading.is_empty() || !is_page || has_heading(root, &target, heading) {
        return None;
    }
    Some(format!("{}: there is no heading {heading} in {}", link.place, target.display()))
}

fn has_heading(root: &Path, file: &Path, heading: &str) -> bool {
    HEADINGS.with_borrow_mut(|all| {
        let headings = all.entry(file.to_owned()).or_insert_with(|| Page::read(root, file).anchors);
        headings.iter().any(|known| known == heading)
    })
}

/// The path without `..`, as a browser takes it: links to files of the repository are not followed.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}
